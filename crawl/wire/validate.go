package wire

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/apoidea/apoidea/crawl/link"
)

// Validate returns an error if a limit is exceeded.
func (m *Session) Validate() error {
	for _, held := range m.GetHeld() {
		if err := errors.Join(host(held.GetHost()), epoch(held.GetEpoch())); err != nil {
			return fmt.Errorf("session: held: %w", err)
		}
	}
	for _, work := range m.GetHosts() {
		if err := work.Validate(); err != nil {
			return fmt.Errorf("session: %w", err)
		}
	}
	return nil
}

// Validate returns an error if a limit is exceeded.
func (m *HostWork) Validate() error {
	if err := errors.Join(host(m.GetHost()), epoch(m.GetEpoch()), epoch(m.GetCertificate().GetEpoch()), signature(m.GetCertificate().GetSignature()), addrs(m.GetAddrs()), robots(m.GetRobots()),
		text("back-off", m.GetBackoffReason())); err != nil {
		return fmt.Errorf("host work: %w", err)
	}
	if m.GetWant() > MaxWant {
		return fmt.Errorf("host work: %d wanted, at most %d", m.GetWant(), MaxWant)
	}
	for _, u := range m.GetReturned() {
		if len(u.GetJob()) != JobIDSize {
			return fmt.Errorf("host work: returned: job ID of %d bytes", len(u.GetJob()))
		}
	}
	for _, f := range m.GetFetched() {
		if err := f.Validate(); err != nil {
			return fmt.Errorf("host work: %w", err)
		}
	}
	return nil
}

// Validate returns an error if a limit is exceeded.
func (m *Fetched) Validate() error {
	switch {
	case len(m.GetJob()) != JobIDSize:
		return fmt.Errorf("fetched: job ID of %d bytes", len(m.GetJob()))
	case len(m.GetUrl()) == 0 || len(m.GetUrl()) > link.MaxURL:
		return fmt.Errorf("fetched: URL of %d bytes", len(m.GetUrl()))
	case m.GetOutcome() >= uint32(link.Outcomes):
		return fmt.Errorf("fetched: unknown outcome %d", m.GetOutcome())
	case m.GetKind() > uint32(link.KindRobots):
		return fmt.Errorf("fetched: unknown kind %d", m.GetKind())
	case m.GetHops() > MaxRedirects+1:
		return fmt.Errorf("fetched: %d hops", m.GetHops())
	case m.GetSize() > MaxSize:
		return fmt.Errorf("fetched: %d bytes, at most %d", m.GetSize(), uint64(MaxSize))
	case len(m.GetDigest()) != 0 && len(m.GetDigest()) != 32:
		return fmt.Errorf("fetched: digest of %d bytes", len(m.GetDigest()))
	case len(m.GetRecordId()) != 0 && len(m.GetRecordId()) != 16:
		return fmt.Errorf("fetched: record ID of %d bytes", len(m.GetRecordId()))
	case m.GetLeftOut() > MaxLeftOut:
		return fmt.Errorf("fetched: %d links left out, at most %d", m.GetLeftOut(), MaxLeftOut)
	case len(m.GetAskedBy()) > link.MaxURL:
		return fmt.Errorf("fetched: asked_by of %d bytes", len(m.GetAskedBy()))
	}
	for _, url := range m.GetLinks() {
		if len(url) == 0 || len(url) > link.MaxURL {
			return fmt.Errorf("fetched: link of %d bytes", len(url))
		}
	}
	if err := kindColumn(m.GetLinkKind(), len(m.GetLinks())); err != nil {
		return fmt.Errorf("fetched: %w", err)
	}
	if len(m.GetChangedS()) != len(m.GetChanged()) {
		return fmt.Errorf("fetched: changed: %w", errColumn)
	}
	if err := urls(m.GetChanged()); err != nil {
		return fmt.Errorf("fetched: changed: %w", err)
	}
	if err := errors.Join(text("etag", m.GetEtag()), text("last-modified", m.GetLastModified()), text("mime", m.GetMime()),
		text("detail", m.GetDetail())); err != nil {
		return fmt.Errorf("fetched: %w", err)
	}
	return nil
}

// Validate returns an error if a limit is exceeded.
func (m *SessionReply) Validate() error {
	for what, list := range map[string][]string{
		"revoked": m.GetRevoked(), "moved": m.GetMoved(), "refused": m.GetRefused(), "not renewed": m.GetNotRenewed(),
	} {
		if err := hosts(list); err != nil {
			return fmt.Errorf("session reply: %s: %w", what, err)
		}
	}
	if err := signature(m.GetReceipt()); err != nil {
		return fmt.Errorf("session reply: receipt: %w", err)
	}
	for _, grant := range m.GetGrants() {
		if err := grant.Validate(); err != nil {
			return fmt.Errorf("session reply: %w", err)
		}
	}
	return nil
}

// Validate returns an error if a limit is exceeded.
func (m *LeaseNote) Validate() error {
	if err := errors.Join(host(m.GetHost()), epoch(m.GetEpoch()), signature(m.GetSignature())); err != nil {
		return fmt.Errorf("lease note: %w", err)
	}
	switch n := len(m.GetHash()); {
	case m.GetEpoch() == nil || len(m.GetWorker()) == 0 || len(m.GetWorker()) > MaxPeer:
		return fmt.Errorf("lease note: epoch %v, worker of %d bytes", m.GetEpoch(), len(m.GetWorker()))
	case m.GetRemainingMs() > MaxLeaseMs:
		return fmt.Errorf("lease note: %d ms remain, at most %d", m.GetRemainingMs(), MaxLeaseMs)
	case len(m.GetJobIds()) > MaxJobs || n > MaxOut:
		return fmt.Errorf("lease note: %d jobs, at most %d; %d URLs, at most %d", len(m.GetJobIds()), MaxJobs, n, MaxOut)
	case len(m.GetJob()) != n:
		return fmt.Errorf("lease note: job: %w", errColumn)
	}
	for _, id := range m.GetJobIds() {
		if len(id) != JobIDSize {
			return fmt.Errorf("lease note: job ID of %d bytes", len(id))
		}
	}
	for _, job := range m.GetJob() {
		if uint64(job) >= uint64(len(m.GetJobIds())) {
			return fmt.Errorf("lease note: job %d of %d", job, len(m.GetJobIds()))
		}
	}
	return nil
}

// Validate returns an error if a limit is exceeded.
func (m *Grant) Validate() error {
	n := len(m.GetUrl())
	if err := errors.Join(host(m.GetHost()), epoch(m.GetEpoch()), signature(m.GetSignature()), addrs(m.GetAddrs()),
		text("back-off", m.GetBackoffReason()), table(m.GetJobIds(), m.GetUrl(), m.GetJob(), m.GetHops(), m.GetKind()), sources(m.GetSources(), m.GetSource(), n)); err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	if m.GetPacePct() > MaxPacePct {
		return fmt.Errorf("grant: pace_pct %d, at most %d", m.GetPacePct(), MaxPacePct)
	}
	for _, have := range []int{len(m.GetDepth()), len(m.GetTries()), len(m.GetMaxBytes())} {
		if have != 0 && have != n {
			return fmt.Errorf("grant: %w", errColumn)
		}
	}
	for i, r := range m.GetRevisits() {
		if err := r.validate(); err != nil {
			return fmt.Errorf("grant: revisit: %w", err)
		}
		if int64(r.GetAt()) >= int64(n) || i > 0 && r.GetAt() <= m.GetRevisits()[i-1].GetAt() {
			return fmt.Errorf("grant: revisit of URL %d of %d", r.GetAt(), n)
		}
	}
	return nil
}

// validate returns an error if a limit is exceeded.
func (m *Revisit) validate() error {
	switch {
	case len(m.GetDigest()) != 0 && len(m.GetDigest()) != 32:
		return fmt.Errorf("digest of %d bytes", len(m.GetDigest()))
	case len(m.GetRecordId()) != 0 && len(m.GetRecordId()) != 16:
		return fmt.Errorf("record ID of %d bytes", len(m.GetRecordId()))
	default:
		return errors.Join(text("etag", m.GetEtag()), text("last-modified", m.GetLastModified()))
	}
}

// Validate returns an error if a limit is exceeded.
func (m *Offer) Validate() error {
	if err := hosts(m.GetHosts()); err != nil {
		return fmt.Errorf("offer: %w", err)
	}
	return nil
}

// Validate returns an error if a limit is exceeded.
func (m *Again) Validate() error {
	if err := errors.Join(host(m.GetHost()), urls(m.GetUrl())); err != nil {
		return fmt.Errorf("again: %w", err)
	}
	for _, url := range m.GetUrl() {
		if link.Host(string(url)) != m.GetHost() {
			return fmt.Errorf("again: %.200q is not of host %.260q", url, m.GetHost())
		}
	}
	for _, c := range m.GetConsents() {
		if len(c.GetPoster()) > MaxPeer || len(c.GetSignature()) > MaxSignature {
			return fmt.Errorf("again: poster of %d bytes, signature of %d", len(c.GetPoster()), len(c.GetSignature()))
		}
	}
	return nil
}

// Validate returns an error if a limit is exceeded.
func (m *Shares) Validate() error {
	if len(m.GetThreshold()) != len(m.GetJobIds()) || len(m.GetPages()) != len(m.GetJobIds()) {
		return fmt.Errorf("shares: %w", errColumn)
	}
	for _, id := range m.GetJobIds() {
		if len(id) != JobIDSize {
			return fmt.Errorf("shares: job ID of %d bytes", len(id))
		}
	}
	return nil
}

func urls(list [][]byte) error {
	for _, url := range list {
		if len(url) == 0 || len(url) > link.MaxURL {
			return fmt.Errorf("URL of %d bytes", len(url))
		}
	}
	return nil
}

// PausedText is the reply of a paused peer to probes and offers; the sender backs off.
const PausedText = "the peer is paused"

// Validate returns an error if a limit is exceeded.
func (m *Vouch) Validate() error {
	if n := len(m.GetWorker()); n == 0 || n > MaxPeer {
		return fmt.Errorf("vouch: worker of %d bytes", n)
	}
	if err := host(m.GetHost()); err != nil {
		return fmt.Errorf("vouch: %w", err)
	}
	return nil
}

// Validate returns an error if a limit is exceeded.
func (m *Probe) Validate() error {
	if err := host(m.GetHost()); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if n := len(m.GetAddr()); n != 0 && n != 4 && n != 16 {
		return fmt.Errorf("probe: address of %d bytes", n)
	}
	if s := m.GetScheme(); s != "http" && s != "https" {
		return fmt.Errorf("probe: scheme %.10q", s)
	}
	if m.GetMethod() != "" && m.GetMethod() != "connect" && m.GetMethod() != "head" {
		return fmt.Errorf("probe: method %.10q", m.GetMethod())
	}
	return nil
}

// Validate returns an error if a limit is exceeded.
func (m *ProbeReply) Validate() error {
	if n := len(m.GetAddr()); n != 0 && n != 4 && n != 16 {
		return fmt.Errorf("probe reply: address of %d bytes", n)
	}
	if m.GetRttUs() < 0 {
		return fmt.Errorf("probe reply: round trip of %d us", m.GetRttUs())
	}
	return text("probe reply: error", m.GetError())
}

// Validate returns an error if a size limit is exceeded; package job validates the contents.
func (m *JobSpec) Validate() error {
	if len(m.GetId()) != JobIDSize {
		return fmt.Errorf("job spec: ID of %d bytes", len(m.GetId()))
	}
	if len(m.GetSeeds()) > MaxSeeds || len(m.GetScope()) > MaxScope {
		return fmt.Errorf("job spec: %d seeds, at most %d; %d patterns, at most %d", len(m.GetSeeds()), MaxSeeds, len(m.GetScope()), MaxScope)
	}
	for _, url := range m.GetSeeds() {
		if len(url) == 0 || len(url) > link.MaxURL {
			return fmt.Errorf("job spec: seed of %d bytes", len(url))
		}
	}
	for _, pattern := range m.GetScope() {
		if pattern == "" || len(pattern) > MaxPattern {
			return fmt.Errorf("job spec: scope pattern of %d bytes", len(pattern))
		}
	}
	if n := len(m.GetSeedsDigest()); n != 0 && n != sha256.Size {
		return fmt.Errorf("job spec: digest of %d bytes", n)
	}
	if len(m.GetInclude()) > MaxFilters || len(m.GetExclude()) > MaxFilters || len(m.GetFirst()) > MaxFilters || len(m.GetHostDepths()) > MaxFilters {
		return fmt.Errorf("job spec: %d patterns to include, %d to exclude, %d to go first, %d hosts with a depth, at most %d each",
			len(m.GetInclude()), len(m.GetExclude()), len(m.GetFirst()), len(m.GetHostDepths()), MaxFilters)
	}
	if len(m.GetPoster()) > MaxPeer || len(m.GetPostedAt()) > MaxPeer || len(m.GetSignature()) > MaxSignature {
		return fmt.Errorf("job spec: poster of %d bytes, posted_at of %d, signature of %d", len(m.GetPoster()), len(m.GetPostedAt()), len(m.GetSignature()))
	}
	return nil
}

// Validate returns an error if a limit is exceeded.
func (m *Job) Validate() error {
	if m.GetSpec() == nil {
		return errors.New("job: no spec")
	}
	if len(m.GetAccounts()) > MaxAccounts {
		return fmt.Errorf("job: %d accounts, at most %d", len(m.GetAccounts()), MaxAccounts)
	}
	for _, a := range m.GetAccounts() {
		if len(a.GetPeer()) > MaxPeer {
			return fmt.Errorf("job: account: peer of %d bytes", len(a.GetPeer()))
		}
	}
	if err := signature(m.GetStateSignature()); err != nil {
		return fmt.Errorf("job: %w", err)
	}
	return m.GetSpec().Validate()
}

// Validate returns an error if a limit is exceeded.
func (m *JobRequest) Validate() error {
	if !m.GetList() && m.GetPost() == nil && len(m.GetId()) != JobIDSize {
		return fmt.Errorf("job request: ID of %d bytes", len(m.GetId()))
	}
	for _, id := range m.GetAsk() {
		if len(id) != JobIDSize {
			return fmt.Errorf("job request: ID of %d bytes", len(id))
		}
	}
	for _, host := range m.GetDraw().GetHost() {
		if len(host) > MaxHost {
			return fmt.Errorf("job request: host of %d bytes", len(host))
		}
	}
	if err := signature(m.GetStateSignature()); err != nil {
		return fmt.Errorf("job request: %w", err)
	}
	if m.GetPost() != nil {
		return m.GetPost().Validate()
	}
	return nil
}

// Validate returns an error if a limit is exceeded.
func (m *JobReply) Validate() error {
	for _, s := range m.GetStandings() {
		if len(s.GetId()) != JobIDSize {
			return fmt.Errorf("job reply: ID of %d bytes", len(s.GetId()))
		}
		if err := signature(s.GetStateSignature()); err != nil {
			return fmt.Errorf("job reply: %w", err)
		}
	}
	for _, j := range m.GetJobs() {
		if err := j.Validate(); err != nil {
			return fmt.Errorf("job reply: %w", err)
		}
	}
	return text("job reply: error", m.GetError())
}
