package show

import (
	"fmt"
	"io"
	"strings"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node/control"
)

// waitText says on one line how many hosts are left alone for one reason, with one of them.
func waitText(w *control.Wait) string {
	text := fmt.Sprintf("%s%s on %s wait for a retry; next in %s", reasonText(w.Reason), words.Counted(w.URLs, "URL"), words.Counted(w.Hosts, "host"), words.Seconds(w.NextS))
	if len(w.Examples) > 0 {
		text += " (" + exampleText(&w.Examples[0]) + ")"
	}
	return text
}

// Waits says so for all reasons, each behind a semicolon.
func Waits(waits []control.Wait) string {
	var text strings.Builder
	for i := range waits {
		text.WriteString("; " + waitText(&waits[i]))
	}
	return text.String()
}

// reasonText is a reason in a word or two.
func reasonText(reason string) string {
	switch reason {
	case "asked":
		return ""
	case "dns":
		return "DNS failure: "
	case "http_error":
		return "status 429 or 503: "
	default:
		return reason + ": "
	}
}

// exampleText names a host with what it failed with.
func exampleText(h *control.WaitingHost) string {
	text := h.Host
	if h.Why != "" {
		text += ": " + words.Legible(h.Why)
	}
	return text
}

// putOff says how much waits for longer than the patience.
func putOff(urls, hosts int64, next float64) string {
	return fmt.Sprintf("%s on %s; next retry in %s", words.Counted(urls, "URL"), words.Counted(hosts, "host"), words.Seconds(next))
}

// waitRows are the rows of a status for hosts that are left alone.
func waitRows(c *control.Status) (rows [][]string) {
	for i := range c.Waits {
		rows = append(rows, []string{"waiting", waitText(&c.Waits[i])})
	}
	if c.URLsPutOff > 0 {
		rows = append(rows, []string{"deferred", putOff(c.URLsPutOff, c.HostsPutOff, nextPutOff(c))})
	}
	return rows
}

// nextPutOff is when the first of what is put off is tried again.
func nextPutOff(c *control.Status) (next float64) {
	for i := range c.Waits {
		if at := c.Waits[i].NextPutOffS; at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// PutOff lists what a crawl that has ended left to a later run; nothing if that is nothing.
func PutOff(out io.Writer, c *control.Status) error {
	if c.URLsPutOff == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "deferred: %s; the same command retries them\n", putOff(c.URLsPutOff, c.HostsPutOff, nextPutOff(c)))
	for i := range c.Waits {
		w := &c.Waits[i]
		named := int64(0)
		for j := range w.Examples {
			e := &w.Examples[j]
			if e.PutOff == 0 || err != nil {
				continue
			}
			named++
			_, err = fmt.Fprintf(out, "  %s, %s, in %s\n", exampleText(e), words.Counted(e.PutOff, "URL"), words.Seconds(e.NextS))
		}
		if more := w.HostsPutOff - named; more > 0 && err == nil {
			_, err = fmt.Fprintf(out, "  %sand %s more\n", reasonText(w.Reason), words.Counted(more, "host"))
		}
	}
	return err
}
