/** A program in TypeScript that `heddle launch` starts as it is. */
const rank: string | undefined = process.env.RANK;
console.log(`rank ${rank} of ${process.env.WORLD_SIZE}`);
