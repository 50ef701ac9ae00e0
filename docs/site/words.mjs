// tokenize splits what is typed into the search into words, as the index was made: between blanks and
// hyphens, without what is no letter or digit at their ends.
export function tokenize(text) {
  return text.toLowerCase().split(/[-\s]+/).map((word) => word.replace(/^\W+|\W+$/g, '')).filter(Boolean);
}
