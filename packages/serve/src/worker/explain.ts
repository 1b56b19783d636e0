/** Where a model finds the evidence for a class, by Grad-CAM of heddle-look. */
import { type nn, type Tensor, tensor } from 'heddle';
import type { ServedModel } from './served-model.js';

/** @param convolves whether the model has convolutions to look at @returns whether heddle-look is there to do it, too */
export const canExplain = async (convolves: boolean): Promise<boolean> =>
  convolves &&
  (await import('heddle-look').then(
    () => true,
    () => false,
  ));

/** @param model gives logits or probabilities (1, classes) of an image */
export const explainBy =
  (model: nn.Layer): NonNullable<ServedModel['explain']> =>
  async ({ values, shape }, target) => {
    const { gradCam } = await import('heddle-look');
    const images = tensor(values, { shape: [...shape] }) as Tensor;
    const [found] = await gradCam(model, images, { targets: [target] });
    const { map, height, width, layer } = found!;
    return { map: { shape: [1, height, width], values: map }, layer };
  };
