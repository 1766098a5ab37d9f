package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node/control"
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
	return words.Table(out, rows)
}

// Job tells of a job and what became of its URLs.
func Job(out io.Writer, j *control.Job) error {
	rows := [][]string{
		{"job", j.ID},
		{"state", j.State},
		{"posted", posted(j)},
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
	if j.Spec.Order != "" {
		rows = append(rows, []string{"order", j.Spec.Order})
	}
	if depths := depthsText(&j.Spec); depths != "" {
		rows = append(rows, []string{"max depth", depths})
	}
	if j.Spec.MaxPages > 0 {
		rows = append(rows, []string{"max pages", fmt.Sprint(j.Spec.MaxPages)})
	}
	if j.Waiting > 0 {
		rows = append(rows, []string{"waiting for another try", fmt.Sprintf("%d, the next in %s", j.Waiting, words.Seconds(j.NextRetryS))})
	}
	if j.PutOff > 0 {
		rows = append(rows, []string{"put off", putOff(j.PutOff, j.PutOffHosts, j.PutOffNextS)})
	}
	for _, name := range slices.Sorted(maps.Keys(j.Outcomes)) {
		if j.Outcomes[name] > 0 {
			rows = append(rows, []string{"  " + name, words.Number(j.Outcomes[name])})
		}
	}
	return words.Table(out, rows)
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

// posted is when a job was posted, by the clock of whoever did.
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
