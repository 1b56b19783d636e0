/** Which known word was probably meant. */

/** The word that differs least from `word`, by up to a third of its letters; undefined if none is that near. */
export function closest<W extends string>(word: string, known: readonly W[]): W | undefined {
  let best: W | undefined;
  let least = Math.floor(word.length / 3) + 1;
  for (const candidate of known) {
    const edits = editDistance(word, candidate);
    if (edits >= least) continue;
    best = candidate;
    least = edits;
  }
  return best;
}

/** Letters to insert, delete or replace to make `b` of `a` (Levenshtein), row by row of the table of their prefixes. */
function editDistance(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = above[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, above[j]! + 1, row[j - 1]! + 1));
    }
    above = row;
  }
  return above[b.length]!;
}
