package show

import (
	"fmt"
	"io"
	"strings"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// exampleAfter is the wait in seconds for which progress gives an example.
const exampleAfter = 10

// waitText describes the deferred hosts of one reason.
func waitText(w *control.Wait, example bool) string {
	text := fmt.Sprintf("%s: %s on %s, next in %s", reasonText(w.Reason), words.Counted(w.URLs, "URL"), words.Counted(w.Hosts, "host"), words.Seconds(w.NextS))
	if len(w.Examples) > 0 && example {
		text += " (" + exampleText(&w.Examples[0]) + ")"
	}
	return text
}

// Waits describes the deferred hosts of all reasons, each after a semicolon, with an example for
// long ones, or always.
func Waits(waits []control.Wait, always bool) string {
	var text strings.Builder
	for i := range waits {
		text.WriteString("; " + waitText(&waits[i], always || waits[i].NextS > exampleAfter))
	}
	return text.String()
}

// reasonText is a reason in a word or two.
func reasonText(reason string) string {
	switch reason {
	case "asked":
		return "waiting"
	case "dns":
		return "DNS failure"
	case "http_error":
		return "status 429 or 503"
	default:
		return reason
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

// putOff counts what waits for longer than the patience.
func putOff(urls, hosts int64, next float64) string {
	return fmt.Sprintf("%s on %s, next retry in %s", words.Counted(urls, "URL"), words.Counted(hosts, "host"), words.Seconds(next))
}

// waitRows are the rows of a status for deferred hosts.
func waitRows(c *control.Status) (rows [][]string) {
	for i := range c.Waits {
		rows = append(rows, []string{"backoff", waitText(&c.Waits[i], true)})
	}
	if c.URLsPutOff > 0 {
		rows = append(rows, []string{"deferred", putOff(c.URLsPutOff, c.HostsPutOff, nextPutOff(c))})
	}
	return rows
}

// nextPutOff is the seconds until the first deferred retry.
func nextPutOff(c *control.Status) (next float64) {
	for i := range c.Waits {
		if at := c.Waits[i].NextPutOffS; at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// PutOff lists the URLs that a finished crawl deferred to a later run, if any.
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
			_, err = fmt.Fprintf(out, "  and %s more (%s)\n", words.Counted(more, "host"), reasonText(w.Reason))
		}
	}
	return err
}
