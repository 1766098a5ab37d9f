package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// Jobs lists jobs.
func Jobs(out io.Writer, jobs []control.Job) error {
	rows := [][]string{{"ID", "STATE", "POSTED", "SEEN", "DONE", "PENDING", "LEASED", "SEEDS"}}
	for _, j := range jobs {
		rows = append(rows, []string{
			j.ID, j.State, posted(&j), words.Number(j.Accepted), words.Number(j.Done), words.Number(j.Pending), words.Number(j.Leased),
			seedsText(&j.Spec),
		})
	}
	return words.List(out, rows)
}

// Job prints a job and the outcomes of its URLs.
func Job(out io.Writer, j *control.Job) error {
	rows := [][]string{
		{"job", j.ID},
		{"state", j.State},
		{"posted", posted(j)},
		{"posted by", poster(j)},
		{"owner", j.Owner},
		{"seeds", seedsText(&j.Spec)},
		{"URLs seen", words.Number(j.Accepted)},
		{"done", words.Number(j.Done)},
		{"pending", words.Number(j.Pending)},
		{"leased", words.Number(j.Leased)},
		{"bytes", words.Bytes(j.Bytes)},
	}
	if len(j.Spec.Scope) > 0 {
		rows = append(rows, []string{"scope", strings.Join(j.Spec.Scope, " ")})
	}
	for i, patterns := range [][]string{j.Spec.Include, j.Spec.Exclude, j.Spec.First} {
		if len(patterns) > 0 {
			rows = append(rows, []string{[]string{"include", "exclude", "first"}[i], strings.Join(patterns, " ")})
		}
	}
	if depths := depthsText(&j.Spec); depths != "" {
		rows = append(rows, []string{"max depth", depths})
	}
	if j.Spec.MaxPages > 0 {
		rows = append(rows, []string{"max pages", fmt.Sprint(j.Spec.MaxPages)})
	}
	if j.Spec.Refresh != "" {
		rows = append(rows, []string{"refresh", j.Spec.Refresh})
	}
	if j.Scheduled+j.Visits > 0 {
		rows = append(rows, []string{"fetched again", fmt.Sprintf("%s pages; %s visits, %s changes, %s answers of status 304", words.Number(j.Scheduled), words.Number(j.Visits), words.Number(j.Changes), words.Number(j.NotModified))})
	}
	if j.Waiting > 0 {
		rows = append(rows, []string{"retries", fmt.Sprintf("%d pending, next in %s", j.Waiting, words.Seconds(j.NextRetryS))})
	}
	if j.PutOff > 0 {
		rows = append(rows, []string{"deferred", putOff(j.PutOff, j.PutOffHosts, j.PutOffNextS)})
	}
	for _, name := range slices.Sorted(maps.Keys(j.Outcomes)) {
		if j.Outcomes[name] > 0 {
			rows = append(rows, []string{"  " + name, words.Number(j.Outcomes[name])})
		}
	}
	return words.Table(out, rows)
}

// Keys are the job keys of a peer and of the jobs of its ring.
type Keys struct {
	Key  string     `json:"key"`  // ID of that which signs what is posted and changed at the peer
	Jobs []KeyOfJob `json:"jobs"` // those of the ring
}

// KeyOfJob is the key that posted a job.
type KeyOfJob struct {
	Job    string `json:"job"`    // ID
	Poster string `json:"poster"` // ID of the key
	Signed bool   `json:"signed"` // as in control.Job
}

// KeysOf are the keys of jobs beside that of a peer.
func KeysOf(key *control.JobKey, jobs []control.Job) *Keys {
	k := &Keys{Key: key.ID, Jobs: []KeyOfJob{}}
	for i := range jobs {
		k.Jobs = append(k.Jobs, KeyOfJob{jobs[i].ID, jobs[i].Poster, jobs[i].Signed})
	}
	return k
}

// JobKeys prints job keys.
func JobKeys(out io.Writer, k *Keys) error {
	rows := [][]string{{"JOB", "POSTED BY", "CHANGED BY"}, {"new jobs", k.Key, "this peer"}}
	for _, j := range k.Jobs {
		who := "peers with this key"
		switch {
		case !j.Signed:
			who = "any peer (not signed)"
		case j.Poster == k.Key:
			who = "this peer"
		}
		rows = append(rows, []string{j.Job, j.Poster, who})
	}
	return words.Table(out, rows)
}

// poster is the key that posted a job.
func poster(j *control.Job) string {
	if !j.Signed {
		return strings.TrimSpace(j.Poster + " (not signed)")
	}
	return j.Poster
}

// depthsText is how far from the seeds a job goes, as --max-depth takes it.
func depthsText(s *control.JobSpec) string {
	var list []string
	if s.MaxDepth != nil {
		list = append(list, fmt.Sprint(*s.MaxDepth))
	}
	for _, d := range s.HostDepths {
		list = append(list, fmt.Sprintf("%s=%d", d.Host, d.Depth))
	}
	return strings.Join(list, " ")
}

// posted is the time of posting, by the poster's clock.
func posted(j *control.Job) string {
	if j.Created.IsZero() {
		return "unknown"
	}
	return j.Created.Local().Format(time.DateTime)
}

func seedsText(s *control.JobSpec) string {
	switch {
	case s.MoreSeeds > 0 && len(s.URLs) > 0:
		return fmt.Sprintf("%s and others, a list of %d", s.URLs[0], s.MoreSeeds)
	case len(s.URLs) <= 2:
		return strings.Join(s.URLs, " ")
	}
	return fmt.Sprintf("%s and %d more", s.URLs[0], len(s.URLs)-1)
}

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

// OptOutCheck prints whether a URL is opted out, and how its site opts out.
func OptOutCheck(out io.Writer, o *control.OptOutCheck) error {
	state := "may be crawled"
	if o.OptedOut {
		state = "opted out: " + strings.Join(o.Reasons, "; ")
	}
	return words.Table(out, [][]string{
		{"URL", o.URL},
		{"state", state},
		{"to opt out", fmt.Sprintf("publish the line %s in %s or in a TXT record", o.Token, o.WellKnown)},
		{"to withdraw", fmt.Sprintf("publish the line %s there", o.WithdrawToken)},
	})
}

// OptOuts lists the opt-outs of a peer.
func OptOuts(out io.Writer, o *control.OptOuts) error {
	var rows [][]string
	for _, l := range o.Lists {
		rows = append(rows, []string{"list " + l.From, strconv.Itoa(l.Rules) + " rules"})
		for _, rule := range l.First {
			rows = append(rows, []string{"", rule})
		}
	}
	for _, d := range o.Domains {
		rows = append(rows, []string{"stored for the ring", "domain " + d})
	}
	for _, h := range o.Hosts {
		rows = append(rows, []string{"stored for the ring", "host " + h})
	}
	if len(rows) == 0 {
		rows = append(rows, []string{"none", "this peer has no opt-outs"})
	}
	return words.Table(out, rows)
}
