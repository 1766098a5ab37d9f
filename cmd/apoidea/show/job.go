package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
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
