/**
 * Identifies this build. What one build keeps on disk (schedules, programs, kernel texts, timings of the tuner) is not
 * read by another. `scripts/build.mjs` puts a hash of the compiled library here; without one, nothing is kept.
 */
export const BUILD_ID: string | undefined = undefined;

/**
 * The commit that was built, with `-dirty` if files differed from it: what figures are measured of. Undefined where the build did
 * not know one.
 */
export const BUILD_COMMIT: string | undefined = undefined;
