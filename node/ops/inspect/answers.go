package inspect

import (
	"encoding/json"
	"fmt"
)

// Size limits of JSON responses of other peers. A list element of three bytes needs a few hundred
// bytes of memory, so elements are counted before decoding.
const (
	// maxAnswerElements limits the elements of all lists; the longest list is one of files.
	maxAnswerElements = 2 * maxFileList
	// maxAnswerValues limits all values; a report has about forty per job.
	maxAnswerValues = 100_000
	// maxAnswerDepth limits the nesting; ours is 5.
	maxAnswerDepth = 16
)

// unpack decodes a response of another peer.
func unpack(raw []byte, v any) error {
	if err := countAnswer(raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// countAnswer checks the size limits of a response without allocation. It does not validate the
// JSON.
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
					return fmt.Errorf("response: nested deeper than %d", maxAnswerDepth)
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
			return fmt.Errorf("response: more than %d list elements or %d values", maxAnswerElements, maxAnswerValues)
		}
	}
	return nil
}
