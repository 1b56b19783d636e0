/** The recipe of a program, with what the command line says instead. */
import { ArgumentError } from '../core/errors.js';
import type { AutocastName } from '../train/index.js';
import { scheduleOf, type TrainingProgram } from '../train/programs.js';
import type { OptimizerName, Recipe } from '../train/recipes.js';

/** Options that stand for settings of a recipe. */
export interface RecipeOptions {
  /** The recipe by name. Default: the program's usual one. */
  readonly recipe?: string;
  readonly epochs?: number;
  readonly batchSize?: number;
  readonly lr?: number;
  readonly optimizer?: OptimizerName;
  readonly schedule?: Recipe['schedule'];
  readonly autocast?: AutocastName;
  readonly ema?: number;
}

/** @throws ArgumentError for a recipe that the program does not have, or a schedule that is none */
export function recipeFor(
  program: TrainingProgram,
  { recipe: variant, epochs, batchSize, lr, optimizer, schedule, autocast, ema }: RecipeOptions,
): Recipe {
  const chosen = variant === undefined ? program.recipe : program.variants?.[variant];
  if (!chosen) {
    const known = Object.keys(program.variants ?? {});
    throw new ArgumentError(
      `${program.name} has no recipe '${variant}'. ` +
        (known.length > 0
          ? `Available: ${known.join(', ')}.`
          : 'It has only its default one: leave --recipe out.'),
    );
  }
  const recipe = {
    ...chosen,
    ...(epochs !== undefined && { epochs }),
    ...(batchSize !== undefined && { batchSize }),
    ...(lr !== undefined && { lr }),
    ...(optimizer !== undefined && { optimizer }),
    ...(schedule !== undefined && { schedule }),
    ...(autocast !== undefined && { autocast }),
    ...(ema !== undefined && { ema }),
  };
  scheduleOf(recipe);
  return recipe;
}
