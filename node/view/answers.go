package view

import (
	"encoding/json"
	"fmt"
)

// What another peer may put into an answer in JSON. An element of a list takes a few hundred bytes
// of memory, and three bytes to say, so what is in an answer is counted before any of it is
// unpacked.
const (
	// maxAnswerElements bounds the elements of all lists of an answer: the longest is one of files.
	maxAnswerElements = 2 * maxFileList
	// maxAnswerValues bounds all its values; a report has some forty for each job.
	maxAnswerValues = 100_000
	// maxAnswerDepth bounds how deep they lie in each other; ours reach 5.
	maxAnswerDepth = 16
)

// unpack reads an answer of another peer.
func unpack(raw []byte, v any) error {
	if err := countAnswer(raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// countAnswer counts what is in an answer. It gives no memory, and leaves it to who unpacks the
// answer to say whether it is JSON at all.
func countAnswer(raw []byte) error {
	var isList [maxAnswerDepth + 1]bool
	depth, elements, values, quoted := 0, 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{' || c == ',':
			if c != ',' {
				if depth++; depth > maxAnswerDepth {
					return fmt.Errorf("answer: deeper than %d", maxAnswerDepth)
				}
				isList[depth] = c == '['
			}
			values++
			if isList[depth] {
				elements++
			}
		case c == ']' || c == '}':
			depth = max(depth-1, 0)
		}
		if elements > maxAnswerElements || values > maxAnswerValues {
			return fmt.Errorf("answer: over %d elements of lists, or %d values", maxAnswerElements, maxAnswerValues)
		}
	}
	return nil
}
