package link

import "strings"

// Limits of [Trap]. Real documentation trees stay far below: their deepest paths have about fifteen
// segments, and a name repeats once or twice at most.
const (
	// maxSegments of a path: the limit for links that grow by one directory on every page.
	maxSegments = 40
	// maxRepeats is how often a run of one to maxCycle segments may repeat, as in /a/b/a/b/a/b.
	// Relative links cause this if a server answers every path with the same page.
	maxRepeats = 4
	maxCycle   = 4
	// maxParams of a query: calendars and filters accumulate parameters.
	maxParams = 40
)

// Trap returns a short reason if a canonical URL looks like that of a crawler trap, which generates
// URLs without end, else "".
func Trap(url string) string {
	path, query, _ := strings.Cut(PathQuery(url), "?")
	if strings.Count(query, "&")+strings.Count(query, ";") >= maxParams {
		return "too many query parameters"
	}
	if strings.Count(path, "/") <= maxRepeats {
		return ""
	}
	var segments [maxSegments]string
	n := 0
	for segment := range strings.SplitSeq(path[1:], "/") {
		if n == maxSegments {
			return "too many path segments"
		}
		segments[n] = segment
		n++
	}
	for cycle := 1; cycle <= maxCycle; cycle++ {
		if repeats(segments[:n], cycle) {
			return "path repeats itself"
		}
	}
	return ""
}

// repeats reports whether some run of cycle segments occurs more than maxRepeats times in a row.
func repeats(segments []string, cycle int) bool {
	same := 0 // consecutive segments that equal the one a cycle before
	for i := cycle; i < len(segments); i++ {
		if segments[i] != segments[i-cycle] {
			same = 0
			continue
		}
		if same++; same >= cycle*maxRepeats {
			return true
		}
	}
	return false
}
