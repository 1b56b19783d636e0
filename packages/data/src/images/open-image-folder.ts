/** The other end of `ImageFolder.remote`, in a thread of the loader. */
import { ImageFolder, type ImageFolderParts } from './image-folder.js';

export const open = (parts: ImageFolderParts): ImageFolder => new ImageFolder(parts);
