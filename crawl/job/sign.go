package job

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
)

// ErrSignature is returned for a spec or state that the poster's key did not sign.
var ErrSignature = errors.New("signature does not match the poster's key")

// ErrNotTaken is returned for jobs that a peer does not accept.
var ErrNotTaken = errors.New("not accepted by this peer")

// Prefixes of signed bytes: the key signs other data as well, and a signature must not be valid for
// another purpose.
const (
	specContext  = "apoidea job spec 1\x00"
	stateContext = "apoidea job state 1\x00"
)

// keyHead is the prefix of a peer ID with an Ed25519 key, which follows: a multihash (identity, of
// 36 bytes) of the key as encoded by libp2p (type 1, data of 32 bytes).
const keyHead = "\x00\x24\x08\x01\x12\x20"

// Key is a job key: it signs the jobs of its holder and identifies their poster. The zero Key signs
// nothing.
type Key struct{ private ed25519.PrivateKey }

// NewKey returns the job key of an Ed25519 key.
func NewKey(private ed25519.PrivateKey) Key { return Key{private} }

// ID returns the peer ID of the key, which is the poster of its jobs; nil for the zero Key.
func (k Key) ID() []byte {
	if k.private == nil {
		return nil
	}
	public := k.private.Public().(ed25519.PublicKey) // always ed25519.PublicKey
	return append([]byte(keyHead), public...)
}

// Sign sets the poster of a spec and signs it.
func (k Key) Sign(s *Spec) error {
	if k.private == nil {
		return nil
	}
	s.Poster = k.ID()
	text, err := s.signed()
	if err != nil {
		return err
	}
	s.Signature = ed25519.Sign(k.private, text)
	return nil
}

// SignState signs a standing of a job.
func (k Key) SignState(id ID, s Standing) Standing {
	s.Signature = ""
	if k.private != nil {
		s.Signature = string(ed25519.Sign(k.private, signedState(id, s)))
	}
	return s
}

// signedState returns the signed bytes of a standing.
func signedState(id ID, s Standing) []byte {
	text := append([]byte(stateContext), id[:]...)
	text = binary.BigEndian.AppendUint32(text, uint32(s.State))
	text = binary.BigEndian.AppendUint64(text, s.Version)
	if s.Refresh != 0 {
		text = binary.BigEndian.AppendUint64(text, uint64(s.Refresh))
	}
	return text
}

// Vouched returns an authenticated standing from one that was received, or [ErrSignature]. For a
// signed job it must be signed by the poster's key, or be the initial one. For an unsigned job any
// standing is valid, and its signature is dropped.
func (s *Spec) Vouched(told Standing) (Standing, error) {
	if !s.Signed() || told.State == StateRunning && told.Version == 1 && told.Refresh == 0 {
		told.Signature = ""
		return told, nil
	}
	public, ok := publicKey(s.Poster)
	if !ok || !ed25519.Verify(public, signedState(s.ID, told), []byte(told.Signature)) {
		return Standing{}, fmt.Errorf("job %s is %s, version %d: %w", s.ID, told.State, told.Version, ErrSignature)
	}
	return told, nil
}

// Believed returns a standing if it is authenticated, and the initial one otherwise.
func (s *Spec) Believed(told Standing) Standing {
	held, err := s.Vouched(told)
	if err != nil {
		return Posted()
	}
	return held
}

// by returns the part of a spec that authenticates standings.
func by(m *wire.JobSpec) *Spec {
	return &Spec{ID: ID(m.GetId()), Poster: m.GetPoster(), Signature: m.GetSignature()}
}

// publicKey returns the key embedded in an ID; false if there is none.
func publicKey(id []byte) (ed25519.PublicKey, bool) {
	public, ok := bytes.CutPrefix(id, []byte(keyHead))
	return public, ok && len(public) == ed25519.PublicKeySize
}

// Signed reports whether the poster's key signed the job. An unsigned job may be of any origin.
func (s *Spec) Signed() bool { return len(s.Signature) > 0 }

// signed returns the signed bytes: the encoded spec without the signature, its fields in the order
// of their numbers.
func (s *Spec) signed() ([]byte, error) {
	m := s.Wire()
	m.Signature = nil
	text, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte(specContext), m)
	if err != nil {
		return nil, fmt.Errorf("encoding job: %w", err)
	}
	return text, nil
}

// verify returns an error for a wrong signature. Unknown fields are not part of the signed bytes
// here, so a job that uses one is rejected, which is better than to crawl without it.
func (s *Spec) verify() error {
	if !s.Signed() {
		return nil
	}
	public, ok := publicKey(s.Poster)
	if !ok {
		return fmt.Errorf("job spec %s: signed, but its poster is not an Ed25519 key: %w", s.ID, ErrSignature)
	}
	text, err := s.signed()
	if err != nil {
		return err
	}
	if !ed25519.Verify(public, text, s.Signature) {
		return fmt.Errorf("job spec %s: %w (or it was made by a newer version)", s.ID, ErrSignature)
	}
	return nil
}

// maxVersion is the highest version of a state that peers accept.
const maxVersion = 1 << 48

// Standing is the state of a job with its version, which grows with each change: the part of a job
// that peers exchange repeatedly.
type Standing struct {
	State   State  // never StateNone for a known job
	Version uint64 // the higher of two wins
	Refresh Refresh
	// Signature is by the key of the job's poster over the job's ID and the other fields, see
	// [Spec.Vouched]; empty for an unsigned job.
	Signature string
}

// Posted returns the initial standing of a job.
func Posted() Standing { return Standing{State: StateRunning, Version: 1} }

// Merge returns the winner of two standings of a job, in any order. Canceled stays canceled; else
// the higher version wins. Equal versions come from two sides of a network partition: then the one
// with fewer fetches and more work left wins: paused before running before done.
func (s Standing) Merge(t Standing) Standing {
	if cmp.Or(cmp.Compare(s.rank(), t.rank()), cmp.Compare(s.Version, t.Version), cmp.Compare(s.State.precedence(), t.State.precedence()),
		cmp.Compare(s.Refresh, t.Refresh), cmp.Compare(s.Signature, t.Signature)) < 0 {
		return t
	}
	return s
}

// rank puts canceled above all versions.
func (s Standing) rank() int {
	if s.State == StateCanceled {
		return 1
	}
	return 0
}

func (s State) precedence() int {
	switch s {
	case StateDone:
		return 1
	case StateRunning:
		return 2
	case StatePaused:
		return 3
	case StateCanceled:
		return 4
	default:
		return 0
	}
}

// Validate rejects a standing that no registry writes.
func (s Standing) Validate() error {
	if s.State == StateNone || s.State >= stateEnd || s.Version == 0 || s.Version > maxVersion || len(s.Signature) > wire.MaxSignature {
		return fmt.Errorf("invalid standing: state %d, version %d, signature of %d bytes", s.State, s.Version, len(s.Signature))
	}
	return s.Refresh.Validate()
}
