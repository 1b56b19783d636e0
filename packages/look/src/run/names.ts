/** The pictures of a run by their names, as --only takes them. */
export const PICTURES = {
  curves: 'loss, accuracy and learning rate over the training',
  confusion: 'which classes are taken for which',
  mistakes: 'the worst mistakes, with their images',
  filters: 'what the first convolution, or linear layer of images, looks for',
  features: 'what convolutions make of an image',
  gradcam: 'where the network finds the evidence for a class',
  embedding: 'what the last layer gets (of gpt: its characters), projected by PCA',
  histograms: 'weights and gradients by layer',
} as const;

/** A name of them. */
export type PictureName = keyof typeof PICTURES;
