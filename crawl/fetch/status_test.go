package fetch

import (
	"fmt"
	"testing"
)

// FuzzStatusOf: what is taken for a status line names the status it says.
func FuzzStatusOf(f *testing.F) {
	for _, s := range []string{"HTTP/1.1 200 OK\r", "HTTP/1.0 404", "HTTP/1.1 999 x", "HTTP/2 200", "HTTP/1.1  200", "HTTP/1.1 20", "ICY 200 OK", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		status, err := statusOf(line)
		if err != nil {
			return
		}
		if status < 100 || status > 999 || string(line[9:12]) != fmt.Sprint(status) {
			t.Errorf("%q: %d", line, status)
		}
	})
}
