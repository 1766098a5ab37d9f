package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/trap"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// maxSeeds bounds the URLs of one job.
const maxSeeds = 10_000

// PosterDeps are the dependencies of a Poster.
type PosterDeps struct {
	Registry *Registry  // finds the owners of jobs, and has the signing key
	Net      rpc.Caller // calls other peers
	// Ring is a walk over the ring.
	Ring func(ctx context.Context) (*control.Ring, error)
	// Seeds sends the seeds of a spec, starting at from, to the owners of their hosts, and returns how
	// many are on disk there.
	Seeds func(ctx context.Context, spec *job.Spec, from int) (sent int, err error)
	// Ready returns when the peer serves requests.
	Ready func(ctx context.Context) error
	// Again asks the owner of a host to fetch pages again, and returns the number of jobs that do.
	Again func(ctx context.Context, m *wire.Again) (jobs int, err error)
}

// Poster accepts jobs from users: posting, listing, changes of state. Its methods implement the job
// methods of control.Backend.
type Poster struct{ deps PosterDeps }

// NewPoster returns the poster of a peer.
func NewPoster(d PosterDeps) *Poster { return &Poster{d} }

// Check returns the error that posting a job would return, without a peer.
func Check(s control.JobSpec) error {
	_, err := specOf(s)
	return err
}

// specOf validates a user's request and assigns an ID.
func specOf(s control.JobSpec) (*job.Spec, error) {
	if len(s.URLs) == 0 || len(s.URLs) > maxSeeds {
		return nil, control.Usage(fmt.Sprintf("job: %d URLs, want 1 to %d", len(s.URLs), maxSeeds))
	}
	id := job.NewID()
	m := &wire.JobSpec{
		Id: id[:], Scope: s.Scope, MaxPages: s.MaxPages, MaxBytes: s.MaxBytes, MaxPagesPerHost: s.MaxPagesPerHost,
		Requisites: s.Requisites, NoSitemaps: s.NoSitemaps, CreatedMs: time.Now().UnixMilli(),
		Include: s.Include, Exclude: s.Exclude, First: s.First, MoreSeeds: s.MoreSeeds, SeedsDigest: s.SeedsDigest,
	}
	if !s.NoTrapRules {
		m.TrapRules = job.TrapRules(trap.Default)
	}
	for _, d := range s.HostDepths {
		m.HostDepths = append(m.HostDepths, &wire.HostDepth{Host: d.Host, Depth: d.Depth})
	}
	for _, u := range s.URLs {
		m.Seeds = append(m.Seeds, []byte(link.WithScheme(u)))
	}
	if s.MaxDepth != nil {
		m.HasMaxDepth, m.MaxDepth = true, *s.MaxDepth
	}
	if s.Retries != nil {
		m.Retries, m.NoRetries = *s.Retries, *s.Retries == 0
	}
	spec, err := job.FromWire(m)
	if err != nil {
		return nil, control.Usage(err.Error())
	}
	return spec, nil
}

// sign returns the signed spec of a user's request.
func (p *Poster) sign(s control.JobSpec) (*job.Spec, error) {
	spec, err := specOf(s)
	if err != nil {
		return nil, err
	}
	key, own := p.deps.Registry.deps.Key, p.deps.Registry.deps.Own
	if !bytes.Equal(key.ID(), own.ID()) {
		spec.PostedAt = own.ID()
	}
	return spec, key.Sign(spec)
}

// Post sends a job to its owner and waits until its seeds are on disk at the owners of their hosts.
func (p *Poster) Post(ctx context.Context, s control.JobSpec) (*control.Job, error) {
	if s.Refresh == "" {
		return p.post(ctx, s)
	}
	if _, err := job.ParseRefresh(s.Refresh); err != nil {
		return nil, control.Usage("refresh " + err.Error())
	}
	j, err := p.post(ctx, s)
	if err != nil || j.Spec.Refresh == s.Refresh {
		return j, err
	}
	fresh, err := p.SetRefresh(ctx, j.ID, s.Refresh)
	if err != nil {
		return nil, fmt.Errorf("job %s is posted, but not its refresh: %w; repeat it with: apoidea job refresh %s %s", j.ID, err, j.ID, s.Refresh)
	}
	fresh.Continued = j.Continued
	return fresh, nil
}

func (p *Poster) post(ctx context.Context, s control.JobSpec) (*control.Job, error) {
	if err := p.deps.Ready(ctx); err != nil {
		return nil, err
	}
	spec, err := p.sign(s)
	if err != nil {
		return nil, err
	}
	if err := p.deps.Registry.deps.Whose.Takes(spec); err != nil {
		return nil, control.Refused(err.Error())
	}
	if s.Continue || s.Once {
		old, err := p.same(ctx, spec, &s)
		if err != nil || old != nil {
			return old, err
		}
	}
	for {
		rec, err := p.deps.Registry.post(ctx, spec)
		if err == nil {
			return p.seeded(ctx, rec)
		}
		if ctx.Err() != nil || calls.CodeOf(err) == calls.CodeRefused {
			return nil, err // another try would be rejected as well
		}
		if err := loop.Sleep(ctx, rpc.HopPause); err != nil {
			return nil, err
		}
	}
}

// AddSeeds adds seeds to a job.
func (p *Poster) AddSeeds(ctx context.Context, id string, urls []string) error {
	if err := p.deps.Ready(ctx); err != nil {
		return err
	}
	if len(urls) > maxSeeds {
		return control.Usage(fmt.Sprintf("seeds: %d URLs, at most %d", len(urls), maxSeeds))
	}
	at, err := job.ParseID(id)
	if err != nil {
		return control.Usage(err.Error())
	}
	known, err := p.deps.Registry.Spec(ctx, at)
	if err != nil {
		return err
	}
	spec := known.Bare()
	for _, u := range urls {
		url, err := link.Canonical(link.WithScheme(u))
		if err != nil {
			return control.Usage(fmt.Sprintf("seed %.200q: %v", u, err))
		}
		spec.Seeds = append(spec.Seeds, url)
	}
	for from := 0; from < len(spec.Seeds); {
		sent, err := p.deps.Seeds(ctx, spec, from)
		if from += sent; err == nil {
			break
		}
		if err := loop.Sleep(ctx, rpc.HopPause); err != nil {
			return fmt.Errorf("job %s: %d of %d seeds delivered: %w", id, from, len(urls), err)
		}
	}
	return nil
}

// seeded waits until the job's owner has sent all seeds.
func (p *Poster) seeded(ctx context.Context, rec *wire.Job) (*control.Job, error) {
	id := job.ID(rec.GetSpec().GetId())
	pace := 10 * time.Millisecond
	for rec.GetSeedsSent() < uint64(len(rec.GetSpec().GetSeeds())) {
		if err := loop.Sleep(ctx, pace); err != nil {
			return nil, fmt.Errorf("job %s is posted, but not all seeds are delivered: %w", id, err)
		}
		pace = min(pace*2, time.Second)
		next, err := p.deps.Registry.get(ctx, id)
		if err == nil {
			rec = next
		} else if ctx.Err() != nil {
			return nil, err
		}
	}
	return jobOf(rec), nil
}

// same returns a job of the ring with an equal spec, as requested by Continue or Once: an
// unfinished one, else the latest finished one; nil if there is none.
func (p *Poster) same(ctx context.Context, spec *job.Spec, asked *control.JobSpec) (finished *control.Job, err error) {
	jobs, err := p.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	want := words(spec.Wire())
	for _, j := range jobs {
		done := j.State == control.JobDone
		if j.State == job.StateCanceled.String() || done && (!asked.Once || j.Fetched() == 0) || !done && !asked.Continue {
			continue
		}
		id, err := job.ParseID(j.ID)
		if err != nil {
			return nil, err
		}
		var found *wire.JobSpec
		if rec, err := p.deps.Registry.get(ctx, id); err == nil {
			found = rec.GetSpec()
		} else if kept, _, err := p.deps.Registry.kept(id); err == nil { // its record is lost, and restored from this one
			found = kept.Wire()
		} else {
			continue
		}
		if words(found) != want {
			continue
		}
		if spec, err := job.FromDisk(found); err != nil || p.deps.Registry.deps.Whose.Takes(spec) != nil {
			continue
		}
		if j.Continued = true; !done {
			return &j, nil
		}
		finished = &j
	}
	return finished, nil
}

// words returns the encoded spec without name, date and poster, for comparison.
func words(m *wire.JobSpec) string {
	m = proto.CloneOf(m)
	m.Id, m.CreatedMs, m.Poster, m.PostedAt, m.Signature = nil, 0, nil, nil, nil
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return ""
	}
	return string(raw)
}

// Jobs returns the jobs of all reachable members with their counts, oldest first. A running job
// without outstanding work on a consistent ring is shown as done.
func (p *Poster) Jobs(ctx context.Context) ([]control.Job, error) {
	r, err := p.deps.Ring(ctx)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*control.Job)
	told := make(map[string]*wire.Job)
	note := func(owner string, rec *wire.Job) {
		j := jobOf(rec)
		if believed(rec) && (told[j.ID] == nil || outdoes(rec, told[j.ID])) {
			j.Owner = owner
			found[j.ID], told[j.ID] = j, rec
		}
	}
	lists := make([][]*wire.Job, len(r.Members))
	var asked errgroup.Group
	asked.SetLimit(listsAtOnce)
	for i := range r.Members {
		asked.Go(func() error {
			id, err := peer.Decode(r.Members[i].Peer)
			if err == nil {
				lists[i] = p.listOf(ctx, id)
			}
			return err
		})
	}
	if err := asked.Wait(); err != nil {
		return nil, err
	}
	for i, list := range lists {
		for _, rec := range list {
			note(r.Members[i].Peer, rec)
		}
	}
	for _, k := range p.deps.Registry.all() { // jobs whose owner is gone
		if found[k.spec.ID.String()] != nil {
			continue
		}
		if spec, _, err := p.deps.Registry.kept(k.spec.ID); err == nil {
			note("", recordOf(spec, k.Standing))
		}
	}
	out := make([]control.Job, 0, len(found))
	for _, j := range found {
		for i := range r.Members {
			for k := range r.Members[i].Jobs {
				if r.Members[i].Jobs[k].Job == j.ID {
					j.Add(&r.Members[i].Jobs[k])
				}
			}
		}
		switch running := job.StateRunning.String(); {
		case j.State == control.JobDone && j.Outstanding() > 0: // links arrived later
			j.State, j.Finished = running, nil
		case r.Closed && j.State == running && j.Outstanding() == 0:
			j.State = control.JobDone
		}
		out = append(out, *j)
	}
	slices.SortFunc(out, func(a, b control.Job) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// believed reports whether a record listed by a member is signed by the job's poster, if the job is
// signed.
func believed(rec *wire.Job) bool {
	if len(rec.GetSpec().GetSignature()) == 0 {
		return true
	}
	spec, err := job.FromWire(rec.GetSpec())
	if err == nil {
		_, err = spec.Vouched(standingOf(rec))
	}
	return err == nil
}

// outdoes reports whether the first of two records of a job wins. An unsigned record beside a
// signed one is forged.
func outdoes(rec, old *wire.Job) bool {
	signed, before := len(rec.GetSpec().GetSignature()) > 0, len(old.GetSpec().GetSignature()) > 0
	if signed != before {
		return signed
	}
	held := standingOf(old)
	return held.Merge(standingOf(rec)) != held
}

// mostPages bounds the replies in which a member lists its jobs: they hold tens of thousands,
// unless each has megabytes of seeds.
const mostPages = 16

// listsAtOnce bounds the concurrent requests for job lists.
const listsAtOnce = 16

// listOf requests all jobs of a member.
func (p *Poster) listOf(ctx context.Context, id peer.ID) (list []*wire.Job) {
	req := &wire.JobRequest{List: true}
	for range mostPages {
		reply, err := jobMethod.Call(ctx, p.deps.Net, id, req)
		if err != nil {
			return list // peers that work for the member's jobs have them as well
		}
		page := reply.GetJobs()
		if len(page) == 0 {
			return list
		}
		list, req.Id = append(list, page...), page[len(page)-1].GetSpec().GetId()
	}
	p.deps.Registry.deps.Log.Warn("job list of a member truncated", "member", id.String(), "listed", len(list))
	return list
}

// JobKey returns the ID of the key that signs jobs posted and changed at this peer.
func (p *Poster) JobKey(context.Context) (*control.JobKey, error) {
	return &control.JobKey{ID: peer.ID(p.deps.Registry.deps.Key.ID()).String()}, nil
}

// Job resolves an ID or an unambiguous prefix of one.
func (p *Poster) Job(ctx context.Context, prefix string) (*control.Job, error) {
	jobs, err := p.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	var hit *control.Job
	for i := range jobs {
		if !strings.HasPrefix(jobs[i].ID, prefix) {
			continue
		}
		if hit != nil {
			return nil, control.Usage(fmt.Sprintf("job %q: ambiguous ID prefix; use more digits (apoidea jobs lists the IDs)", prefix))
		}
		hit = &jobs[i]
	}
	if hit == nil || prefix == "" {
		return nil, control.Usage(fmt.Sprintf("job %q: unknown job (apoidea jobs lists all)", prefix))
	}
	return hit, nil
}

// SetJob pauses, resumes or cancels a job, or records that it is finished, with the time.
func (p *Poster) SetJob(ctx context.Context, prefix, action string) (*control.Job, error) {
	states := map[string]job.State{"pause": job.StatePaused, "resume": job.StateRunning, "cancel": job.StateCanceled, "finish": job.StateDone}
	state, ok := states[action]
	if !ok {
		return nil, control.Usage(fmt.Sprintf("job action %q: want pause, resume, cancel or finish", action))
	}
	j, err := p.Job(ctx, prefix)
	if err != nil {
		return nil, err
	}
	if state == job.StateDone && j.State != control.JobDone {
		return nil, control.Usage(fmt.Sprintf("job %s has work left", j.ID))
	}
	id, err := job.ParseID(j.ID)
	if err != nil {
		return nil, err
	}
	rec, err := p.deps.Registry.setState(ctx, id, state)
	if foreign, ok := errors.AsType[*foreignError](err); ok {
		if state == job.StateDone {
			return j, nil // the state of another poster's job is returned, and not changed
		}
		return nil, control.Refused(foreign.Error())
	}
	if err != nil {
		return nil, err
	}
	j.State = job.State(rec.GetState()).String()
	return j, nil
}

// SetRefresh implements control.Backend.
func (p *Poster) SetRefresh(ctx context.Context, prefix, refresh string) (*control.Job, error) {
	r, err := job.ParseRefresh(refresh)
	if err != nil {
		return nil, control.Usage("refresh " + err.Error())
	}
	j, err := p.Job(ctx, prefix)
	if err != nil {
		return nil, err
	}
	if j.State == job.StateCanceled.String() {
		return nil, control.Refused(fmt.Sprintf("job %s is canceled", j.ID))
	}
	id, err := job.ParseID(j.ID)
	if err != nil {
		return nil, err
	}
	rec, err := p.deps.Registry.change(ctx, id, func(s *job.Standing) { s.Refresh = r })
	if foreign, ok := errors.AsType[*foreignError](err); ok {
		err = control.Refused(foreign.Error())
	}
	if err == nil {
		j.Spec.Refresh = refreshOf(rec)
	}
	return j, err
}

// refreshOf returns the refresh of a job for display, empty if there is none.
func refreshOf(rec *wire.Job) string {
	if rec.GetRefresh() == 0 {
		return ""
	}
	return job.Refresh(rec.GetRefresh()).String()
}

// Refresh implements control.Backend.
func (p *Poster) Refresh(ctx context.Context, target string, now bool) (*control.Refresh, error) {
	url := link.WithScheme(target)
	canonical, err := link.Canonical(url)
	if err != nil {
		return nil, control.Usage(fmt.Sprintf("%.200q: %v", target, err))
	}
	if url != target && strings.Contains(strings.TrimSuffix(target, "/"), "/") {
		return nil, control.Usage(fmt.Sprintf("%.200q: a page needs its scheme, such as %s; a host has no path", target, canonical))
	}
	if err := p.deps.Ready(ctx); err != nil {
		return nil, err
	}
	m := &wire.Again{Host: link.Host(canonical), AtS: uint32(time.Now().Unix()), Now: now} //nolint:gosec // until 2106
	if url == target {
		m.Url = [][]byte{[]byte(canonical)}
	} else {
		canonical = ""
	}
	reg := &p.deps.Registry.deps
	reg.Key.SignAgain(m)
	if !bytes.Equal(reg.Key.ID(), reg.Own.ID()) {
		reg.Own.SignAgain(m)
	}
	jobs, err := p.deps.Again(ctx, m)
	if err != nil {
		return nil, err
	}
	r := &control.Refresh{Host: m.GetHost(), URL: canonical, Jobs: jobs, Text: "visited again in its turn, within the budget of the job"}
	switch {
	case jobs == 0 && now:
		r.Text = "nothing to visit: no job that this peer's key may change has fetched it (apoidea job keys)"
	case jobs == 0:
		r.Text = "nothing to visit: no job with a refresh that this peer's key may change has fetched it (--now visits it without one; apoidea job refresh)"
	case now:
		r.Text = "visited again as soon as the delay of the host allows"
	}
	return r, nil
}

// jobOf converts a record for display.
func jobOf(rec *wire.Job) *control.Job {
	s := rec.GetSpec()
	j := &control.Job{
		ID: job.ID(s.GetId()).String(), State: job.State(rec.GetState()).String(), Created: control.Calendar(s.GetCreatedMs()),
		Poster: peer.ID(s.GetPoster()).String(), Signed: len(s.GetSignature()) > 0,
		Spec: control.JobSpec{
			Scope: s.GetScope(), MaxPages: s.GetMaxPages(), MaxBytes: s.GetMaxBytes(), MaxPagesPerHost: s.GetMaxPagesPerHost(),
			Requisites: s.GetRequisites(), NoSitemaps: s.GetNoSitemaps(), NoTrapRules: s.GetTrapRules() == nil, Include: s.GetInclude(), Exclude: s.GetExclude(), First: s.GetFirst(),
			MoreSeeds: s.GetMoreSeeds(), SeedsDigest: s.GetSeedsDigest(), Refresh: refreshOf(rec),
		},
	}
	for _, d := range s.GetHostDepths() {
		j.Spec.HostDepths = append(j.Spec.HostDepths, control.HostDepth{Host: d.GetHost(), Depth: d.GetDepth()})
	}
	if at := control.Calendar(rec.GetUpdatedMs()); j.State == control.JobDone && !at.IsZero() {
		j.Finished = &at
	}
	for _, u := range s.GetSeeds() {
		j.Spec.URLs = append(j.Spec.URLs, string(u))
	}
	if s.GetHasMaxDepth() {
		depth := s.GetMaxDepth()
		j.Spec.MaxDepth = &depth
	}
	if retries := s.GetRetries(); s.GetNoRetries() || retries > 0 {
		j.Spec.Retries = &retries
	}
	return j
}
