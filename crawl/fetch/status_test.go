package fetch

import (
	"fmt"
	"strings"
	"testing"
)

// FuzzParseStatus: the status that is read stands in the line.
func FuzzParseStatus(f *testing.F) {
	for _, s := range []string{"HTTP/1.1 200 OK", "HTTP/1.0 404", "HTTP/1.1 999 x", "HTTP/2 200", "HTTP/1.1  200", "HTTP/1.1 20", "HTTP/1.1 +20", "ICY 200 OK", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var resp Response
		if _, err := parseStatus(line, &resp); err != nil {
			return
		}
		if resp.Status < 100 || resp.Status > 999 || !strings.Contains(line, " "+fmt.Sprint(resp.Status)) && !strings.Contains(line, "\t"+fmt.Sprint(resp.Status)) {
			t.Errorf("%q: %d", line, resp.Status)
		}
	})
}
