package words

// Nearest suggests the known word with the smallest edit distance, at most a third of the length.
func Nearest(word string, known []string) string {
	best, at := min(4, (len(word)+2)/3+1), ""
	for _, k := range known {
		if d := editDistance(word, k); d < best {
			best, at = d, k
		}
	}
	if at == "" {
		return ""
	}
	return ", did you mean " + at + "?"
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
