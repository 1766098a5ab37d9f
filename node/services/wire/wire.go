// Package wire defines the node's own messages to other peers, and their limits.
package wire

import (
	"errors"
	"fmt"
	"math"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/placement/coordinates"
)

//go:generate protoc --go_out=../../.. --go_opt=module=github.com/apoidea/apoidea node.proto

// Limits of untrusted messages.
const (
	// MaxQuestions is the maximum number of claims, and of confirmations, of one Content.
	MaxQuestions = 1024
	// MaxProofs is the maximum number of bodies of one Proof.
	MaxProofs = 64
	// MaxURL is the maximum length of a URL, that of canonical ones.
	MaxURL = 8192
	// MaxPeerID is the maximum length of a peer ID in bytes.
	MaxPeerID = 128
	// MaxRecords and MaxNotes are the maximum lengths of the columns of one Records.
	MaxRecords = 65536
	MaxNotes   = 1024
	// MaxKey is the maximum length of a record's key; the frame limits values, and none is empty, as
	// each begins with its format.
	MaxKey = 1024
	// PosSize is the length of the ring position that begins the key of a record.
	PosSize = 16
	// KeySize is the length of a ring position.
	KeySize = 32
	// MaxSubnets is the maximum number of records that one Subnets requests, and that it brings.
	MaxSubnets = 256
	// MaxSubnetName is the maximum length of such a record's name, MaxSubnetRecord its size in bytes:
	// the largest is an index of some thousand entries.
	MaxSubnetName   = 512
	MaxSubnetRecord = 1 << 20
	// SamplesVersion is the version of the meaning of samples: an RTT is the minimum of a few TCP
	// connects, or that of one HEAD request.
	SamplesVersion = 1
	// MaxSamples limits the samples of one Samples, MaxSamplePeers the measuring peers, MaxSampleRTTs
	// the RTTs of one sample, MaxSampleHops its number of forwards, MaxSampleWorth the sites of usual
	// size that it represents.
	MaxSamples     = 256
	MaxSamplePeers = 256
	MaxSampleRTTs  = 64
	MaxSampleHops  = 64
	MaxSampleWorth = 100
	// MaxAdmissions limits the hosts of one Admission, MaxHost a host's
	// name in it, MaxSubject the text of an OptOut.
	MaxAdmissions = 256
	MaxHost       = 260
	MaxSubject    = 300

	jobIDLen = 16
	// A prefix has 4 or 16 bytes, and one of length.
	leastPrefix, mostPrefix = 5, 17

	digestLen = 32
	recordLen = 16
)

var errColumns = errors.New("columns of different lengths")

// Validate checks limits and columns.
func (m *Content) Validate() error {
	n, k := len(m.GetClaimDigest()), len(m.GetConfirmDigest())
	if n > MaxQuestions || k > MaxQuestions {
		return fmt.Errorf("content: %d claims and %d confirmations exceed %d", n, k, MaxQuestions)
	}
	if len(m.GetClaimUrl()) != n || len(m.GetConfirmUrl()) != k || len(m.GetConfirmRecord()) != k || len(m.GetConfirmMs()) != k {
		return fmt.Errorf("content: %w", errColumns)
	}
	return errors.Join(
		each("content digest", m.GetClaimDigest(), digestLen, digestLen), each("content digest", m.GetConfirmDigest(), digestLen, digestLen),
		each("content URL", m.GetClaimUrl(), 1, MaxURL), each("content URL", m.GetConfirmUrl(), 1, MaxURL),
		each("content record", m.GetConfirmRecord(), recordLen, recordLen),
	)
}

// Validate checks limits and columns against the number of claims.
func (m *ContentReply) Validate(claims int) error {
	if len(m.GetVerdict()) != claims || len(m.GetUrl()) != claims || len(m.GetRecord()) != claims || len(m.GetPeer()) != claims || len(m.GetDateMs()) != claims {
		return fmt.Errorf("content reply: %w", errColumns)
	}
	for _, i := range m.GetMoved() {
		if int64(i) >= int64(claims) {
			return fmt.Errorf("content reply: index %d of %d claims", i, claims)
		}
	}
	return errors.Join(
		each("content URL", m.GetUrl(), 0, MaxURL), each("content record", m.GetRecord(), 0, recordLen), each("content peer", m.GetPeer(), 0, MaxPeerID),
	)
}

// Validate checks limits and columns.
func (m *Proof) Validate() error {
	n := len(m.GetDigest())
	if n == 0 || n > MaxProofs || len(m.GetKey()) != digestLen {
		return fmt.Errorf("proof: %d bodies with a key of %d bytes, expected up to %d, and %d", n, len(m.GetKey()), MaxProofs, digestLen)
	}
	if len(m.GetUrl()) != n {
		return fmt.Errorf("proof: %w", errColumns)
	}
	return errors.Join(each("proof digest", m.GetDigest(), digestLen, digestLen), each("proof URL", m.GetUrl(), 1, MaxURL))
}

// Validate checks limits and columns against the number of requested bodies.
func (m *ProofReply) Validate(bodies int) error {
	if len(m.GetProof()) != bodies {
		return fmt.Errorf("proof reply: %w", errColumns)
	}
	return each("proof", m.GetProof(), 0, digestLen)
}

// Validate checks limits and columns.
func (m *Records) Validate() error {
	if ask := m.GetAsk(); len(ask) > 0 {
		if len(ask) != KeySize {
			return fmt.Errorf("records: arc from a key of %d bytes, expected %d", len(ask), KeySize)
		}
		return nil
	}
	if m.GetSpace() > math.MaxUint8 {
		return fmt.Errorf("records: invalid space %d", m.GetSpace())
	}
	if len(m.GetFrom()) > MaxPeerID {
		return fmt.Errorf("records: invalid peer of %d bytes", len(m.GetFrom()))
	}
	if len(m.GetKey()) == 0 || len(m.GetKey()) > MaxRecords || len(m.GetKey()) != len(m.GetValue()) || len(m.GetNote()) > MaxNotes || len(m.GetNote()) != len(m.GetNotePos()) {
		return fmt.Errorf("records: %w", errColumns)
	}
	return errors.Join(
		each("record key", m.GetKey(), PosSize, MaxKey), each("record value", m.GetValue(), 1, math.MaxInt),
		each("position of a note", m.GetNotePos(), PosSize, PosSize),
	)
}

// Validate checks limits.
func (m *Pull) Validate() error {
	if m.GetSpace() > math.MaxUint8 || len(m.GetKey()) > MaxKey+1 {
		return fmt.Errorf("pull: invalid space %d or key of %d bytes", m.GetSpace(), len(m.GetKey()))
	}
	return nil
}

// Validate checks limits and columns.
func (m *PullReply) Validate() error {
	if len(m.GetKey()) > MaxRecords || len(m.GetKey()) != len(m.GetValue()) {
		return fmt.Errorf("pull reply: %w", errColumns)
	}
	return errors.Join(each("record key", m.GetKey(), PosSize, MaxKey), each("record value", m.GetValue(), 1, math.MaxInt))
}

// NewCoordinate returns the message of a coordinate.
func NewCoordinate(at *coordinates.Coordinate) *Coordinate { return &Coordinate{At: at.Append(nil)} }

// Place returns the coordinate, or an error: wrong dimension, numbers that are not finite, or out
// of range.
func (m *Coordinate) Place() (coordinates.Coordinate, error) {
	at, err := coordinates.Decode(m.GetAt())
	if err != nil {
		return at, fmt.Errorf("gossip: %w", err)
	}
	return at, nil
}

// Validate checks that it holds a coordinate.
func (m *Coordinate) Validate() error {
	_, err := m.Place()
	return err
}

// SubnetState is the result of a request for a placement record.
type SubnetState byte

// The states.
const (
	SubnetNone  SubnetState = iota // there is none
	SubnetHere                     // it is in the answer
	SubnetSame                     // identical to the requester's
	SubnetMoved                    // another peer serves it
	SubnetLater                    // the answer is full: request it again
)

// Validate checks limits and columns.
func (m *Subnets) Validate() error {
	if n, k := len(m.GetKind()), len(m.GetRecord()); n > MaxSubnets || k > MaxSubnets {
		return fmt.Errorf("subnets: %d requested and %d brought exceed %d", n, k, MaxSubnets)
	}
	if len(m.GetName()) != len(m.GetKind()) || len(m.GetHeld()) != len(m.GetKind()) {
		return fmt.Errorf("subnets: %w", errColumns)
	}
	return errors.Join(each("name of a subnet", m.GetName(), 0, MaxSubnetName), each("record of a subnet", m.GetRecord(), 1, MaxSubnetRecord))
}

// Validate checks limits and columns against the numbers of records requested and brought.
func (m *SubnetsReply) Validate(asked, brought int) error {
	if len(m.GetState()) != asked || len(m.GetRecord()) != asked {
		return fmt.Errorf("subnets reply: %w", errColumns)
	}
	for i, state := range m.GetState() {
		if here := SubnetState(state) == SubnetHere; state > byte(SubnetLater) || here != (len(m.GetRecord()[i]) > 0) {
			return fmt.Errorf("subnets reply: state %d with %d bytes", state, len(m.GetRecord()[i]))
		}
	}
	for _, i := range m.GetMoved() {
		if int64(i) >= int64(brought) {
			return fmt.Errorf("subnets reply: index %d of %d records", i, brought)
		}
	}
	return each("record of a subnet", m.GetRecord(), 0, MaxSubnetRecord)
}

// Validate checks limits.
func (m *Admission) Validate() error {
	if len(m.GetJob()) != jobIDLen {
		return fmt.Errorf("admission: invalid job ID of %d bytes", len(m.GetJob()))
	}
	if n := len(m.GetHost()); n == 0 || n > MaxAdmissions {
		return fmt.Errorf("admission: %d hosts, expected 1 to %d", n, MaxAdmissions)
	}
	for _, host := range m.GetHost() {
		if host == "" || len(host) > MaxHost {
			return fmt.Errorf("admission: invalid host of %d bytes", len(host))
		}
	}
	return nil
}

// Validate checks that there is one verdict per host.
func (m *AdmissionReply) Validate(hosts int) error {
	if len(m.GetVerdict()) != hosts {
		return fmt.Errorf("admission reply: %w", errColumns)
	}
	for _, v := range m.GetVerdict() {
		if !domain.Verdict(v).Valid() {
			return fmt.Errorf("admission reply: invalid verdict %d", v)
		}
	}
	return nil
}

// Validate checks limits; the receiver interprets the text.
func (m *OptOut) Validate() error {
	for _, s := range []string{m.GetSubject(), m.GetAction(), m.GetHost()} {
		if len(s) > MaxSubject {
			return fmt.Errorf("opt-out: %d bytes exceed %d", len(s), MaxSubject)
		}
	}
	return nil
}

// Validate checks limits.
func (m *Permits) Validate() error {
	if n := len(m.GetPrefix()); n != leastPrefix && n != mostPrefix && (n > 0 || m.GetDomain() == "") {
		return fmt.Errorf("permits: invalid prefix of %d bytes", n)
	}
	if n := len(m.GetDomain()); n > MaxHost {
		return fmt.Errorf("permits: invalid domain of %d bytes", n)
	}
	if n := len(m.GetHost()); n > MaxHost {
		return fmt.Errorf("permits: invalid host of %d bytes", n)
	}
	if int64(m.GetDelayMs()) > permit.MaxDelay.Milliseconds() {
		return fmt.Errorf("permits: invalid delay of %d ms", m.GetDelayMs())
	}
	if m.GetWant() > permit.MaxWant {
		return fmt.Errorf("permits: %d requested exceed %d", m.GetWant(), permit.MaxWant)
	}
	return nil
}

// Validate checks limits against the request.
func (m *PermitsReply) Validate(want int) error {
	if int64(m.GetPermits()) > int64(want) {
		return fmt.Errorf("permits reply: %d for %d requested", m.GetPermits(), want)
	}
	if int64(m.GetHoldsMs()) > permit.Chunk.Milliseconds() {
		return fmt.Errorf("permits reply: invalid lifetime of %d ms", m.GetHoldsMs())
	}
	return nil
}

func each(what string, column [][]byte, least, most int) error {
	for _, b := range column {
		if len(b) < least || len(b) > most {
			return fmt.Errorf("%s of %d bytes, expected %d to %d", what, len(b), least, most)
		}
	}
	return nil
}
