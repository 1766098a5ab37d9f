package adaptive

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
)

// Strategy is ours. Make one with New.
type Strategy struct {
	cfg      Config
	memories *memories
	belief   belief
	judged   judgement
	rnd      *rand.Rand

	placed float64          // sites so far, small ones being less than one
	asked  map[string]int   // by host: probes asked for in the placement that goes on
	tried  map[string][]int // by host: columns of those who had a trial in the placement that goes on
	price  [2]float64       // of a probe, 1 being the worth of a right choice: for sites with an address and without

	now      time.Time // the latest that was heard of
	frozen   bool
	samples  []Sample // that were not told yet
	unasked  float64  // worth of what was placed without a probe since
	compared time.Time
	paceNews bool // downloads since then
}

var _ placement.Observer = (*Strategy)(nil)

// New returns a strategy that knows nothing yet.
func New(cfg Config) (*Strategy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("adaptive placement: %w", err)
	}
	cfg.fill()
	s := &Strategy{
		cfg: cfg, memories: newMemories(cfg.Memories, cfg.Peers), rnd: rand.New(rand.NewPCG(cfg.Seed, 0x6164617074)), // nothing secret
		asked: make(map[string]int), tried: make(map[string][]int), price: [2]float64{firstPrice, firstPrice},
	}
	s.belief = belief{memories: s.memories, worths: newWorths(), rnd: s.rnd}
	return s, nil
}

const (
	// firstPrice is what a probe has to gain at least before the budget says so, 1 being the worth
	// of a right choice; minPrice and maxPrice bound it. A probe that makes the right choice likelier
	// by a fifth is made whatever was spent: where peers come and go, or all places are new, the
	// budget would cost the crawl more than it saves.
	firstPrice = 0.04
	minPrice   = 0.004
	maxPrice   = 0.2
	// priceRate is how fast the price follows what is spent: by a factor of e after some thirty
	// probes beyond the budget.
	priceRate = 0.03
	// maxAsked bounds the placements that go on at once. Those that were never finished are
	// forgotten with them.
	maxAsked = 4096
	// newcomer is how many sites a candidate has to have measured before it is treated like the
	// others.
	newcomer = 4
	// usualURLs make a site worth all that a probe can gain; smaller ones are worth their part, and
	// those under small of that are not explored.
	usualURLs = 60
	small     = 0.5
	// newPlace is what a site is worth at least at whose place none was before: others will come.
	newPlace = 0.33
	// measuredAge is for how long a round trip holds: ways change.
	measuredAge = 10 * time.Minute
	// sureEnough of the choice, a site is not looked at again. guessed is the least with which a
	// site goes to somebody whom nobody asked: else its owner begins, and learns by that.
	sureEnough = 0.9
	guessed    = 0.3
	// trial is how many URLs a worker fetches whose connection is to say as much as a probe would;
	// moving is what it costs beside, 1 being the worth of a right choice.
	trial  = 1
	moving = 0.03
	// alike is by how many milliseconds a candidate may be farther in the mean if nobody need care.
	alike = 0.75
	// lighter is the share of its capacity by which a candidate has less in hand than another if
	// that is to count.
	lighter = 0.05
	// always is the share of sites that every candidate measures.
	always = 0.005
	// manyPeers bounds how much more training many candidates bring, blindTraining is how much more
	// of it sites without an address take.
	manyPeers     = 64
	blindTraining = 1.4
)

// question is a placement as it goes on.
type question struct {
	view     *placement.View
	host     string
	able     []placement.Candidate
	peers    []*column // of able
	measured []bool    // of able, failures too
	failed   []bool
	lag      []float64
	trial    int     // URLs for which the choice is tried; 0: for all
	sure     float64 // that the choice is the best one

	seen      []observation // also by those that are not able
	hints     hints
	addressed bool    // the site's address is known
	worth     float64 // of a right choice: 1 for a site of usual size
	key       string
	memory    *memory // of the site itself, if it was placed before
	like      string  // what most of the belief comes from, for people
}

// key of a site is its address or, where that is not known, its name.
func key(host string, site netip.Addr) string {
	if site.IsValid() {
		return site.Unmap().WithZone("").String()
	}
	return host
}

func (s *Strategy) question(v *placement.View) *question {
	q := &question{view: v, host: v.Host, able: v.Able(), hints: hintsOf(v.Site, s.cfg.Atlas), key: key(v.Host, v.Site), addressed: v.Site.IsValid()}
	s.tick(v.Now)
	if q.worth = worthOf(v.URLs); q.worth < newPlace && q.addressed && !s.memories.at(q.hints[sameSubnet]) {
		q.worth = newPlace
	}
	if q.memory = s.memories.find(q.key); q.memory != nil {
		if v.Anew {
			q.memory.blank()
		}
		s.recall(q)
	}
	s.compare(v.Now)
	for _, c := range q.able {
		p := s.memories.column(c.Peer)
		m, known := v.Measured[c.Peer]
		q.peers = append(q.peers, p)
		q.measured, q.failed = append(q.measured, known), append(q.failed, m.Err != "")
		q.lag = append(q.lag, p.pace.lag)
	}
	for _, c := range v.Candidates {
		if m, ok := v.Measured[c.Peer]; ok && m.Err == "" {
			q.seen = append(q.seen, observation{s.memories.column(c.Peer).number, milliseconds(m.RTT)})
		}
	}
	return q
}

// worthOf a site with so many URLs.
func worthOf(urls int64) float64 {
	if urls <= 0 {
		return 1
	}
	return min(1, float64(urls)/usualURLs)
}

// tick moves the time on.
func (s *Strategy) tick(now time.Time) {
	if now.After(s.now) {
		s.now = now
	}
}

// fresh says whether what was measured of a memory holds still.
func (s *Strategy) fresh(m *memory) bool { return s.now.Sub(m.met) <= measuredAge }

// recall adds to the view what was measured of the site before, or met by those that fetched,
// unless that is too long ago.
func (s *Strategy) recall(q *question) {
	if !s.fresh(q.memory) {
		return
	}
	for _, c := range q.view.Candidates {
		if p := s.memories.columns[c.Peer]; p != nil && p.number < len(q.memory.cells) {
			if _, known := q.view.Measured[c.Peer]; !known && q.memory.cells[p.number].exact() {
				q.view.Measured[c.Peer] = placement.Measurement{RTT: time.Duration(float64(q.memory.cells[p.number].mean) * float64(time.Millisecond))}
			}
		}
	}
}

// Next implements placement.Strategy.
func (s *Strategy) Next(v *placement.View) placement.Choice {
	q := s.question(v)
	if len(q.able) < 2 {
		return s.alone(q)
	}
	if s.explores(q) {
		if all := q.unmeasured(func(int) bool { return true }); len(all) > 0 {
			return s.ask(q, all)
		}
	}
	if !s.think(q, q.seen) {
		return s.blind(q)
	}
	q.like = s.belief.like(v.Site)
	worker := s.pick(q)
	s.judged.value(s.belief.draws, q.measured, s.leastGain(q))
	if probe := s.probes(q, worker); len(probe) > 0 {
		return s.ask(q, probe)
	}
	if k := s.tries(q, worker); k >= 0 {
		worker, q.trial = k, trial
		if len(s.tried) >= maxAsked {
			clear(s.tried)
		}
		s.tried[q.host] = append(s.tried[q.host], q.peers[k].number)
		return s.conclude(q, worker)
	}
	delete(s.tried, q.host)
	if len(q.seen) == 0 && q.sure < guessed {
		worker, q.sure = q.nearest(), 0 // whoever fetches first measures as well
	}
	return s.conclude(q, worker)
}

// alone is when there is nobody to choose from.
func (s *Strategy) alone(q *question) placement.Choice {
	if len(q.able) == 0 {
		return placement.Choice{Why: "no candidates"}
	}
	return placement.Choice{Worker: q.able[0].Peer, Why: "no other candidate"}
}

// blind is when nothing is remembered: everybody measures, unless that is not worth it.
func (s *Strategy) blind(q *question) placement.Choice {
	if all := q.unmeasured(func(int) bool { return true }); len(all) > 0 && q.worth >= small {
		return s.ask(q, all)
	}
	return s.conclude(q, q.nearest())
}

// think draws possible sites and judges the candidates. False if nothing is remembered.
func (s *Strategy) think(q *question, seen []observation) bool {
	s.belief.weigh(&q.hints, telling(seen), nil)
	if !s.belief.draw(q.peers, seen) {
		return false
	}
	for _, y := range s.belief.draws {
		for k := range y {
			if q.failed[k] {
				y[k] = math.Inf(1)
			}
		}
	}
	s.judged.judge(s.belief.draws, q.lag)
	return true
}

// telling are the observations that weigh: the smallest.
func telling(seen []observation) []observation {
	if len(seen) <= maxObserved {
		return seen
	}
	few := slices.SortedFunc(slices.Values(seen), func(a, b observation) int { return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.column, b.column)) })
	return few[:maxObserved]
}

// pick is the worker if nothing more is measured.
func (s *Strategy) pick(q *question) int {
	k := s.judged.choose()
	if q.failed[k] {
		return q.nearest()
	}
	k = s.lightest(q, k)
	q.sure = s.judged.best[k]
	return k
}

// lightest of those that nobody need tell apart: the owner, who has clearly less in hand, or else
// one that the host's name draws. So a site that is near to all, as one of a network of caches,
// goes to whoever is free.
func (s *Strategy) lightest(q *question, k int) int {
	most := s.judged.late[k] + alike
	for i := range q.able {
		if i == k || q.failed[i] || s.judged.late[i] > most || q.able[k].Self {
			continue
		}
		less := q.able[k].Load() - q.able[i].Load()
		if q.able[i].Self || less > lighter || less > -lighter && placement.Weight(q.host, q.able[i].Peer) > placement.Weight(q.host, q.able[k].Peer) {
			k = i
		}
	}
	return k
}

// probes are whom to ask next: the candidate whose probe is worth most, if that is worth its price,
// and newcomers beside it. Where somebody could not reach the site, the worker has to have reached
// it; where downloads have become slower, the worker that made them says how far it is now.
func (s *Strategy) probes(q *question, worker int) []string {
	price := s.price[q.kind()]
	most := -1
	for k, gain := range s.judged.gain {
		if gain*q.worth >= price && (most < 0 || gain > s.judged.gain[most]) {
			most = k
		}
	}
	if most < 0 && slices.Contains(q.failed, true) {
		most = worker
	}
	slower := func(k int) bool { return q.view.Anew && q.able[k].Peer == q.view.Known }
	return q.unmeasured(func(k int) bool {
		return k == most || q.worth >= small && q.peers[k].measured < newcomer || slower(k)
	})
}

// leastGain is what a probe has to bring at least for anybody to ask for it: its price, or that of
// a trial.
func (s *Strategy) leastGain(q *question) float64 {
	least := s.price[q.kind()] / max(q.worth, 1e-9)
	if q.view.URLs > trial {
		least = min(least, moving)
	}
	return least
}

// tries is a candidate who did not measure and is worth a trial: who is to fetch a few pages, as
// its connection then makes the choice for the others better by more than these few lose. -1 if
// there is none.
func (s *Strategy) tries(q *question, worker int) int {
	if q.view.URLs <= trial {
		return -1
	}
	most, worth := -1, 0.0
	part := trial / float64(q.view.URLs)
	for k := range q.able {
		if q.measured[k] || slices.Contains(s.tried[q.host], q.peers[k].number) {
			continue
		}
		gain := (1-part)*s.judged.gain[k] - part*max(s.judged.mean[worker]-s.judged.mean[k], 0) - moving
		if gain > worth {
			most, worth = k, gain
		}
	}
	return most
}

// explores says whether a site is measured by everybody: the same of a host as long as its
// placement goes on, and at all owners.
func (s *Strategy) explores(q *question) bool {
	h := fnv.New64a()
	h.Write([]byte(q.host))
	u := rand.New(rand.NewPCG(0x6578706c6f7265, h.Sum64())).Float64() // nothing secret
	return u < always && q.worth >= small
}

func (s *Strategy) ask(q *question, peers []string) placement.Choice {
	if len(s.asked) >= maxAsked {
		clear(s.asked)
	}
	s.asked[q.view.Host] += len(peers)
	return placement.Choice{Probe: peers}
}

// Freeze has placements teach nothing from now on: so a trial can judge what was learnt before.
func (s *Strategy) Freeze() { s.frozen = true }

// conclude ends a placement: what it cost and what it taught is noted.
func (s *Strategy) conclude(q *question, worker int) placement.Choice {
	asked := s.asked[q.view.Host]
	delete(s.asked, q.view.Host)
	whole := 2*len(q.seen) > len(q.able)
	if !s.frozen {
		s.pay(q, asked, len(q.able))
		if asked == 0 {
			s.unasked = min(s.unasked+q.worth, maxWorth-1)
		} else {
			s.teach(q, asked, whole)
			s.remember(q, whole)
		}
	}
	return placement.Choice{Worker: q.able[worker].Peer, Unsure: q.sure < sureEnough, URLs: q.trial, Why: q.why(worker)}
}

func (q *question) why(worker int) string {
	sure := int(math.Round(100 * q.sure))
	switch {
	case q.trial > 0:
		return fmt.Sprintf("tried for %d pages, as its connection measures the site: it may be the nearest by %s", q.trial, q.like)
	case len(q.seen) == 0 && sure == 0:
		return "no candidate reached the site, or none was asked: the owner keeps the host"
	case len(q.seen) == 0:
		return fmt.Sprintf("nearest by %s, %d %% sure; nobody measured", q.like, sure)
	case !q.measured[worker]:
		return fmt.Sprintf("nearest by what %d others measured and by %s, %d %% sure", len(q.seen), q.like, sure)
	case sure == 0:
		return fmt.Sprintf("%.1f ms to the site, the least of %d that measured", q.ms(worker), len(q.seen))
	default:
		return fmt.Sprintf("%.1f ms to the site, %d %% sure that none of %d is nearer by over %g ms; %d measured", q.ms(worker), sure, len(q.able), tie, len(q.seen))
	}
}

// pay counts a placement, and moves the price of a probe towards where the budget is kept. What
// exploring takes of the budget is set aside.
func (s *Strategy) pay(q *question, asked, of int) {
	defer func() { s.placed += q.worth }()
	if s.explores(q) {
		return
	}
	budget, training := s.cfg.Budget, s.cfg.Training
	if q.kind() == 1 {
		budget, training = s.cfg.BlindBudget, blindTraining*training
	}
	budget += training * math.Sqrt(float64(min(of, manyPeers))/(s.placed+1))
	budget *= q.worth
	aside := always * max(0, float64(of)-budget)
	p := &s.price[q.kind()]
	*p = min(max(*p*math.Exp(priceRate*(float64(asked)-budget+aside)), minPrice), maxPrice)
}

// remember what was measured of a site, and what is believed of the rest. Also where the address is
// not known: later sites are told to be like it by the same few probes, and what is believed leans
// on all that was measured before. Of peers that were no candidates too: at the next site like it
// they may be, when others are gone.
func (s *Strategy) remember(q *question, whole bool) {
	if len(q.seen) == 0 {
		return
	}
	for _, p := range s.memories.peers() {
		if !slices.Contains(q.peers, p) {
			q.peers = append(q.peers, p)
		}
	}
	s.belief.weigh(&q.hints, telling(q.seen), q.memory)
	s.belief.learn()
	believed := s.belief.draw(q.peers, q.seen)
	m := s.memories.add(q.key, whole)
	m.hints = q.hints
	for k, p := range q.peers {
		if c := m.cell(p.number); believed && (!c.known() || c.dev > 0) {
			*c = s.belief.believed(k)
		}
	}
	m.met = s.now
	for _, o := range q.seen {
		*m.cell(o.column) = cell{mean: float32(o.ms)}
	}
	for _, p := range q.peers {
		if slices.ContainsFunc(q.seen, func(o observation) bool { return o.column == p.number }) {
			p.measured++
		}
	}
	m.summarize()
}

// believed is the mean and deviation of a candidate's round trip over the draws.
func (b *belief) believed(k int) cell {
	n, sum, squares := 0.0, 0.0, 0.0
	for _, y := range b.draws {
		if v := y[k]; !math.IsInf(v, 0) {
			n, sum, squares = n+1, sum+v, squares+v*v
		}
	}
	if n == 0 {
		return unknown
	}
	mean := sum / n
	return cell{float32(mean), float32(max(math.Sqrt(max(squares/n-mean*mean, 0)), 0.01))}
}

// Observe implements placement.Observer.
func (s *Strategy) Observe(f *placement.Fetch) {
	c := s.memories.columns[f.Worker]
	if c == nil || f.Failed || f.Took <= 0 {
		return
	}
	m := s.memories.find(key(f.Host, f.Site))
	if m == nil || !m.at(c.number).known() {
		return
	}
	n, took := trips(f.Bytes), milliseconds(f.Took)
	c.pace.add(f.Host, f.At, min(took-n*float64(m.at(c.number).mean), latest))
	s.paceNews = true
	m.bound(c.number, took/n)
}

// bound lowers what is only believed of a round trip to what a download shows it to be at most.
func (m *memory) bound(column int, ms float64) {
	if column < len(m.cells) {
		if c := &m.cells[column]; c.dev > 0 && float64(c.mean) > ms {
			*c = cell{float32(ms), max(min(c.dev, float32(ms/4)), 0.01)}
		}
	}
}

// unmeasured are the peers of those of the candidates that satisfy a condition and were not
// measured.
func (q *question) unmeasured(which func(int) bool) (out []string) {
	for k := range q.able {
		if !q.measured[k] && which(k) {
			out = append(out, q.able[k].Peer)
		}
	}
	return out
}

// kind is 0 for a site with an address, 1 without.
func (q *question) kind() int {
	if q.addressed {
		return 0
	}
	return 1
}

// ms is what a candidate measured.
func (q *question) ms(k int) float64 { return milliseconds(q.view.Measured[q.able[k].Peer].RTT) }

// nearest of those that measured; the owner if nobody did.
func (q *question) nearest() int {
	best := -1
	for k := range q.able {
		if q.measured[k] && !q.failed[k] && (best < 0 || q.ms(k)+q.lag[k] < q.ms(best)+q.lag[best]) {
			best = k
		}
	}
	if best < 0 {
		best = max(0, slices.IndexFunc(q.able, func(c placement.Candidate) bool { return c.Self }))
	}
	return best
}

func milliseconds(d time.Duration) float64 { return max(d.Seconds()*1000, 0.001) }
