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

// Strategy is the adaptive strategy. Create it with New.
type Strategy struct {
	memories *memories
	belief   belief
	judged   judgement
	rnd      *rand.Rand

	placed float64          // sites so far, small ones counting less than one
	asked  map[string]int   // by host: probes requested in the current placement
	tried  map[string][]int // by host: columns of peers with a trial in the current placement
	price  [2]float64       // of a probe, 1 being the value of a right choice, by kind of the site

	now      time.Time // latest time of any input
	frozen   bool
	samples  []Sample // not sent yet
	unasked  float64  // value of the sites placed without a probe since
	compared time.Time
	paceNews bool // new downloads since
}

var _ placement.Observer = (*Strategy)(nil)

// New returns a strategy without memories; seed is that of all random draws.
func New(seed uint64) *Strategy {
	s := &Strategy{
		memories: newMemories(maxMemories, maxPeers), rnd: rand.New(rand.NewPCG(seed, 0x6164617074)), // not for security
		asked: make(map[string]int), tried: make(map[string][]int), price: [2]float64{firstPrice, firstPrice},
	}
	s.belief = belief{memories: s.memories, worths: newWorths(), rnd: s.rnd}
	return s
}

const (
	// usualBudget is the long-term mean of probes per site, exploration included; blindBudget is that
	// of sites without an address in a known block: a first probe has to replace its information.
	usualBudget, blindBudget = 1.2, 1.6
	// usualTraining is the additional cost of earlier sites: with c candidates the n-th one may cost
	// this times the root of c/n more probes. So the cost of learning grows with the root of the
	// number of sites, which need not be known in advance.
	usualTraining = 3.0
	// maxMemories bounds the stored sites. Time grows with it; with 12 candidates these take about
	// half a millisecond a probe. maxPeers bounds the stored candidates; a memory takes 8 bytes for
	// each.
	maxMemories, maxPeers = 1536, 256
	// firstPrice is the initial minimum gain of a probe, 1 being the value of a right choice; minPrice
	// and maxPrice bound it. A probe that makes the right choice likelier by a fifth is always made:
	// where peers join and leave, or all ranges are new, the budget would cost the crawl more than it
	// saves.
	firstPrice = 0.04
	minPrice   = 0.004
	maxPrice   = 0.2
	// priceRate is how fast the price follows the spending: by a factor of e after some thirty probes
	// beyond the budget.
	priceRate = 0.03
	// maxAsked bounds the concurrent placements. Unfinished ones are dropped with them.
	maxAsked = 4096
	// newcomer is how many sites a new candidate must have measured before it is treated like the
	// others.
	newcomer = 4
	// usualURLs is the number of URLs of a site of full value; smaller ones have a proportional value,
	// and those under small of that are not explored.
	usualURLs = 60
	small     = 0.5
	// newPlace is the minimum value of a site in a new range: other sites may follow.
	newPlace = 0.33
	// measuredAge is how long a round trip is valid: paths change.
	measuredAge = 10 * time.Minute
	// sureEnough is the probability of the choice from which a site is not placed again. guessed is
	// the minimum for choosing a peer without a measurement: below it the owner begins, and thereby
	// measures.
	sureEnough = 0.9
	guessed    = 0.3
	// trial is how many URLs a worker fetches whose connection replaces a probe; moving is its
	// additional cost, 1 being the value of a right choice.
	trial  = 1
	moving = 0.03
	// alike is the mean difference in milliseconds below which candidates count as equal.
	alike = 0.75
	// lighter is the minimum difference in load, as a share of capacity, that makes a candidate
	// preferable.
	lighter = 0.05
	// always is the share of sites that every candidate measures.
	always = 0.005
	// manyPeers bounds the additional training due to many candidates, blindTraining is the factor for
	// sites without an address in a known block.
	manyPeers     = 64
	blindTraining = 1.4
)

// question is a placement under way.
type question struct {
	view     *placement.View
	host     string
	able     []placement.Candidate
	peers    []*column // of able
	measured []bool    // by able, failures too
	failed   []bool
	lag      []float64
	trial    int     // URLs of a trial; 0: no limit
	sure     float64 // probability that the choice is the best one

	seen      []observation // also by candidates that are not able
	hints     hints
	addressed bool    // the site's address is known
	worth     float64 // value of a right choice: 1 for a site of usual size
	key       string
	memory    *memory // of the site itself, if it was placed before
	like      string  // main source of the belief, for display
}

// key returns the address of a site or, if that is unknown, its name.
func key(host string, site netip.Addr) string {
	if site.IsValid() {
		return site.Unmap().WithZone("").String()
	}
	return host
}

func (s *Strategy) question(v *placement.View) *question {
	q := &question{view: v, host: v.Host, able: v.Able(), hints: hintsOf(v.Site), key: key(v.Host, v.Site), addressed: v.Site.IsValid()}
	s.tick(v.Now)
	if q.worth = worthOf(v.URLs); q.worth < newPlace && q.addressed && !s.memories.at(sameSubnet, q.hints) {
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

// worthOf returns the value of a site with so many URLs.
func worthOf(urls int64) float64 {
	if urls <= 0 {
		return 1
	}
	return min(1, float64(urls)/usualURLs)
}

// tick advances the time.
func (s *Strategy) tick(now time.Time) {
	if now.After(s.now) {
		s.now = now
	}
}

// fresh reports whether the measurements of a memory are valid.
func (s *Strategy) fresh(m *memory) bool { return s.now.Sub(m.met) <= measuredAge }

// recall adds to the view what was measured of the site before, or observed by fetches, unless that
// is too old.
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
		worker, q.sure = q.nearest(), 0 // the first fetch measures as well
	}
	return s.conclude(q, worker)
}

// alone handles a placement without alternatives.
func (s *Strategy) alone(q *question) placement.Choice {
	if len(q.able) == 0 {
		return placement.Choice{Why: "no candidates"}
	}
	return placement.Choice{Worker: q.able[0].Peer, Why: "no other candidate"}
}

// blind handles a placement without memories: all candidates measure, unless that is not worth it.
func (s *Strategy) blind(q *question) placement.Choice {
	if all := q.unmeasured(func(int) bool { return true }); len(all) > 0 && q.worth >= small {
		return s.ask(q, all)
	}
	return s.conclude(q, q.nearest())
}

// think draws possible sites and judges the candidates. It returns false without memories.
func (s *Strategy) think(q *question, seen []observation) bool {
	s.belief.weigh(&q.hints, informative(seen), nil)
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

// informative returns the observations with weight: the smallest.
func informative(seen []observation) []observation {
	if len(seen) <= maxObserved {
		return seen
	}
	few := slices.SortedFunc(slices.Values(seen), func(a, b observation) int { return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.column, b.column)) })
	return few[:maxObserved]
}

// pick returns the worker if nothing more is measured.
func (s *Strategy) pick(q *question) int {
	k := s.judged.choose()
	if q.failed[k] {
		return q.nearest()
	}
	k = s.lightest(q, k)
	q.sure = s.judged.best[k]
	return k
}

// lightest selects among equal candidates: the owner, one with a clearly lower load, or else one by
// the hash of the host's name. So a site that is near to all, such as a CDN, goes to a peer with
// capacity.
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

// probes returns the peers to measure next: the candidate whose probe has the highest gain, if that
// exceeds its price, and new candidates beside it. If a peer could not reach the site, the worker
// must have reached it; if downloads have become slower, their worker measures again.
func (s *Strategy) probes(q *question, worker int) []string {
	price := s.price[s.kind(q)]
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

// leastGain returns the minimum gain of a probe: its price, or that of a trial.
func (s *Strategy) leastGain(q *question) float64 {
	least := s.price[s.kind(q)] / max(q.worth, 1e-9)
	if q.view.URLs > trial {
		least = min(least, moving)
	}
	return least
}

// tries returns a candidate without a measurement that is worth a trial: it fetches a few pages,
// because its connect time improves the choice for the others by more than these few lose. -1 if
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

// explores reports whether all candidates measure a site: the same during a host's placement, and
// at all owners.
func (s *Strategy) explores(q *question) bool {
	h := fnv.New64a()
	h.Write([]byte(q.host))
	u := rand.New(rand.NewPCG(0x6578706c6f7265, h.Sum64())).Float64() // not for security
	return u < always && q.worth >= small
}

func (s *Strategy) ask(q *question, peers []string) placement.Choice {
	if len(s.asked) >= maxAsked {
		clear(s.asked)
	}
	s.asked[q.view.Host] += len(peers)
	return placement.Choice{Probe: peers}
}

// Freeze stops learning from placements, so that an experiment can evaluate what was learned
// before.
func (s *Strategy) Freeze() { s.frozen = true }

// conclude ends a placement, and records its cost and results.
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
		return fmt.Sprintf("trial for %d pages, to measure the connect time: it may be the nearest by %s", q.trial, q.like)
	case len(q.seen) == 0 && sure == 0:
		return "no candidate reached the site, or none was probed: the owner keeps the host"
	case len(q.seen) == 0:
		return fmt.Sprintf("nearest by %s, %d %% sure; no measurements", q.like, sure)
	case !q.measured[worker]:
		return fmt.Sprintf("nearest by %d measurements of others and by %s, %d %% sure", len(q.seen), q.like, sure)
	case sure == 0:
		return fmt.Sprintf("%.1f ms to the site, the smallest of %d measurements", q.ms(worker), len(q.seen))
	default:
		return fmt.Sprintf("%.1f ms to the site, nearest of %d within %g ms (confidence %d %%), measured %d times", q.ms(worker), len(q.able), tie, sure, len(q.seen))
	}
}

// pay counts a placement, and adjusts the price of a probe to the budget. The cost of exploring is
// reserved.
func (s *Strategy) pay(q *question, asked, of int) {
	defer func() { s.placed += q.worth }()
	if s.explores(q) {
		return
	}
	budget, training := usualBudget, usualTraining
	if s.kind(q) == 1 {
		budget, training = blindBudget, blindTraining*training
	}
	budget += training * math.Sqrt(float64(min(of, manyPeers))/(s.placed+1))
	budget *= q.worth
	aside := always * max(0, float64(of)-budget)
	p := &s.price[s.kind(q)]
	*p = min(max(*p*math.Exp(priceRate*(float64(asked)-budget+aside)), minPrice), maxPrice)
}

// remember stores what was measured of a site, and the belief about the rest. Also without an
// address: later sites are compared to it by the same few probes, and the belief uses all earlier
// measurements. It includes peers that are not candidates: for the next similar site they may be.
func (s *Strategy) remember(q *question, whole bool) {
	if len(q.seen) == 0 {
		return
	}
	for _, p := range s.memories.peers() {
		if !slices.Contains(q.peers, p) {
			q.peers = append(q.peers, p)
		}
	}
	s.belief.weigh(&q.hints, informative(q.seen), q.memory)
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

// believed returns the mean and deviation of a candidate's round trip over the draws.
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

// bound lowers an unmeasured round trip to the upper bound from a download.
func (m *memory) bound(column int, ms float64) {
	if column < len(m.cells) {
		if c := &m.cells[column]; c.dev > 0 && float64(c.mean) > ms {
			*c = cell{float32(ms), max(min(c.dev, float32(ms/4)), 0.01)}
		}
	}
}

// unmeasured returns the peers of candidates that satisfy a condition and were not measured.
func (q *question) unmeasured(which func(int) bool) (out []string) {
	for k := range q.able {
		if !q.measured[k] && which(k) {
			out = append(out, q.able[k].Peer)
		}
	}
	return out
}

// kind returns 0 for a site with an address in the block of an earlier site; 1 otherwise.
func (s *Strategy) kind(q *question) int {
	if q.addressed && s.memories.at(sameBlock, q.hints) {
		return 0
	}
	return 1
}

// ms returns what a candidate measured.
func (q *question) ms(k int) float64 { return milliseconds(q.view.Measured[q.able[k].Peer].RTT) }

// nearest returns the nearest candidate by measurement; the owner without any.
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
