package coordinates

import "time"

// EstimatorConfig is the configuration of the estimator's side.
type EstimatorConfig struct {
	// Every is the interval at which sets of at least Age are sent. The paper has 10 s and 20 s; since
	// a server has one estimate at a time here and waits for it that long, the default age is shorter,
	// so that the duration of an update equals the paper's.
	Every, Age time.Duration
	// Most results make a set; a full one is sent at once.
	Most int
}

// DefaultEstimatorConfig sends, each 10 s, sets that are older than 5 s.
func DefaultEstimatorConfig() EstimatorConfig {
	return EstimatorConfig{Every: 10 * time.Second, Age: 5 * time.Second, Most: 500}
}

// Report is a set of results for the peer that requested them; the estimator's coordinate is sent
// with it.
type Report struct {
	To      string   // the requester
	Results []Result // of its URLs
}

// Estimator collects the downloads that this peer makes for others (3.4, step 6). The URLs
// themselves wait in its ordinary [Queue].
type Estimator struct {
	cfg  EstimatorConfig
	sets []*resultSet // the oldest first
	next time.Time
}

type resultSet struct {
	Report
	begun time.Time
}

// NewEstimator returns an estimator without results.
func NewEstimator(cfg EstimatorConfig) *Estimator { return &Estimator{cfg: cfg} }

// Finished adds a download that was made for a requester.
func (e *Estimator) Finished(now time.Time, requester string, r *Result) {
	for _, s := range e.sets {
		if s.To == requester && len(s.Results) < e.cfg.Most {
			s.Results = append(s.Results, *r)
			return
		}
	}
	e.sets = append(e.sets, &resultSet{Report{To: requester, Results: []Result{*r}}, now})
}

// Tick returns the sets that are to be sent now; later results go into new ones.
func (e *Estimator) Tick(now time.Time) []Report {
	if now.Before(e.next) {
		return nil
	}
	e.next = now.Add(e.cfg.Every)
	var due []Report
	var rest []*resultSet
	for _, s := range e.sets {
		if now.Sub(s.begun) >= e.cfg.Age || len(s.Results) >= e.cfg.Most {
			due = append(due, s.Report)
		} else {
			rest = append(rest, s)
		}
	}
	e.sets = rest
	return due
}
