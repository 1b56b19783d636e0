/** Data sets of files that need a codec: images, tables, tokenized text. */
export {};
