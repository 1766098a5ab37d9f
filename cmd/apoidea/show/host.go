package show

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// Host prints the details of a host.
func Host(out io.Writer, h *control.Host) error {
	rows := [][]string{{"host", h.Host}, {"key", h.Key}, {"owner", words.Named(h.Owner, string(h.Names[h.Owner]))}}
	if !h.Known {
		rows = append(rows, []string{"state", "unknown: no job has a URL of this host"})
		if h.OptedOut != "" {
			rows = append(rows, []string{"opted out", h.OptedOut})
		}
		return words.Table(out, rows)
	}
	worker := "none"
	if h.Worker != "" {
		worker = fmt.Sprintf("%s, lease epoch %s, %s left", words.Named(h.Worker, string(h.Names[h.Worker])), h.Epoch, words.Seconds(h.LeaseS))
	}
	if h.OptedOut != "" {
		rows = append(rows, []string{"opted out", h.OptedOut})
	}
	rows = append(rows, []string{"worker", worker}, []string{"addresses", strings.Join(h.Addrs, " ")})
	if h.NotBeforeS > 0 {
		rows = append(rows, []string{"next request", fmt.Sprintf("in %s %s", words.Seconds(h.NotBeforeS), h.Backoff)})
	}
	if h.PutOff {
		rows = append(rows, []string{"deferred", "its retries are left to a later run (see --patience)"})
	}
	if h.Fails > 0 {
		rows = append(rows, []string{"failures", fmt.Sprintf("%d in a row, last: %s", h.Fails, h.FailOutcome)})
	}
	for _, r := range h.Robots {
		rows = append(rows, []string{"robots " + r.Origin, robotsText(&r)})
	}
	rows = append(rows, placementRows(h)...)
	for _, j := range h.Jobs {
		text := fmt.Sprintf("%d seen, %d done, %d pending, %d leased", j.Accepted, j.Done, j.Pending, j.Leased)
		if j.LinksLeftOut > 0 {
			text += words.Singular(fmt.Sprintf("; %d links of its pages skipped, over the limits of a page", j.LinksLeftOut))
		}
		rows = append(rows, []string{"job " + j.Job, text})
		rows = append(rows, []string{"  requests", requestsText(&j, h.Budgets)})
		for _, left := range j.Left {
			rows = append(rows, []string{"  left", words.Singular(fmt.Sprintf("%d URLs by %s, such as %s (--trap-rules off)", left.URLs, left.Text, words.Legible(left.Example)))})
		}
	}
	return words.Table(out, rows)
}

// robotsText describes a robots.txt.
func robotsText(r *control.RobotsLine) string {
	text := r.Verdict + ", never fetched"
	if r.AgeS > 0 {
		text = words.Singular(fmt.Sprintf("%s, %s old, %d bytes", r.Verdict, words.Seconds(r.AgeS), r.Bytes))
	}
	if r.Failures > 0 {
		text += fmt.Sprintf(", %d failures in a row", r.Failures)
	}
	if r.NextS > 0 {
		text += ", next request in " + words.Seconds(r.NextS)
	}
	return text
}

// requestsText has the usage of the limits of a host by a job.
func requestsText(j *control.HostJob, b *control.Budgets) string {
	text := fmt.Sprintf("%d", j.Requests)
	if b != nil && b.MaxRequestsPerHost > 0 {
		text += fmt.Sprintf(" of at most %d", b.MaxRequestsPerHost)
	}
	if j.LinksCut > 0 {
		text += words.Singular(fmt.Sprintf("; %d links dropped (over %d new hosts per page, link farm, trap rule 1, or too many pending URLs)", j.LinksCut, b.PageHosts))
	}
	if j.Spent != "" {
		text += "; " + j.Spent
	}
	return text
}

// placementRows list the measurements of a host, the nearest first, and the reason of the choice.
func placementRows(h *control.Host) (rows [][]string) {
	if h.PlacedBy != "" {
		chosen := words.Named(words.Short(h.PlacedAt), string(h.Names[h.PlacedAt]))
		if h.PlacedAt == h.Owner {
			chosen = "its owner"
		}
		rows = append(rows, []string{"placed by " + h.PlacedBy, fmt.Sprintf("%s ago at %s: %s", words.Seconds(h.PlacedS), chosen, h.PlacedWhy)})
	}
	measured := slices.Clone(h.Placement)
	slices.SortStableFunc(measured, func(a, b control.Measurement) int {
		return cmp.Or(strings.Compare(a.Error, b.Error), cmp.Compare(a.RTTMs, b.RTTMs))
	})
	for _, m := range measured {
		text := fmt.Sprintf("%.2f ms", m.RTTMs)
		if m.Error != "" {
			text = m.Error
		}
		if m.Peer == h.Owner {
			text += ", the owner"
		}
		if m.Chosen {
			text += ", chosen"
		}
		if m.Addr != "" {
			text += " (" + m.Addr + ")"
		}
		rows = append(rows, []string{"  asked " + words.Named(words.Short(m.Peer), string(h.Names[m.Peer])), text})
	}
	if h.Coordinate != nil {
		rows = append(rows, coordinateRows(h)...)
	}
	if h.LatencyRow != nil {
		rows = append(rows, []string{"emulated at", fmt.Sprintf("row %d of the latency matrix", *h.LatencyRow)})
	}
	return rows
}

// coordinateRows describe the network coordinate of the host's server and its estimators, the
// nearest first.
func coordinateRows(h *control.Host) [][]string {
	c := h.Coordinate
	vector := make([]string, len(c.VectorMs))
	for i, v := range c.VectorMs {
		vector[i] = fmt.Sprintf("%.1f", v)
	}
	rows := [][]string{{"coordinate", words.Singular(fmt.Sprintf("(%s) height %.1f ms, error %.2f (target %.2f), %d updates (%s)",
		strings.Join(vector, " "), c.HeightMs, c.Error, c.Theta, c.Updates, c.Addr))}}
	list := slices.Clone(c.Estimators)
	slices.SortStableFunc(list, func(a, b control.Estimator) int { return cmp.Compare(expected(&a), expected(&b)) })
	for _, e := range list {
		text := words.Singular(fmt.Sprintf("%d downloads", e.Samples))
		if e.ExpectedMs > 0 {
			text += fmt.Sprintf(", %.1f ms per page expected", e.ExpectedMs)
		}
		if e.Peer == h.Owner {
			text += ", the owner"
		}
		if e.Chosen {
			text += ", chosen"
		}
		rows = append(rows, []string{"  estimator " + words.Named(words.Short(e.Peer), string(h.Names[e.Peer])), text})
	}
	return rows
}

// expected is an estimator's expected time to sort by: what is not known comes last.
func expected(e *control.Estimator) float64 {
	if e.ExpectedMs == 0 {
		return math.Inf(1)
	}
	return e.ExpectedMs
}

// Refresh writes the answer to a request to visit pages again.
func Refresh(out io.Writer, r *control.Refresh) error {
	return words.Table(out, [][]string{{cmp.Or(r.URL, r.Host), r.Text}})
}

// Why prints the outcome of a URL for each job.
func Why(out io.Writer, w *control.Why) error {
	rows := [][]string{{"URL", w.URL}, {"host", w.Host}, {"owner", w.Owner}}
	for _, j := range w.Jobs {
		rows = append(rows, []string{"job " + j.Job, j.Text})
	}
	if w.Text != "" {
		rows = append(rows, []string{"", w.Text})
	}
	return words.Table(out, rows)
}
