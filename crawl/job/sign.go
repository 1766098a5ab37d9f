package job

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
)

// ErrSignature says that the poster's key did not sign this.
var ErrSignature = errors.New("the signature is not that of the poster's key")

// ErrNotTaken answers for jobs that a peer does not work for.
var ErrNotTaken = errors.New("this peer does not take it")

// What begins that which is signed: the same key signs other things, and no signature passes for
// that of something else.
const (
	specContext  = "apoidea job spec 1\x00"
	stateContext = "apoidea job state 1\x00"
)

// keyHead begins the ID of a peer that has an Ed25519 key, which follows: a multihash (identity, of
// 36 bytes) of the key as libp2p writes it (type 1, data of 32 bytes).
const keyHead = "\x00\x24\x08\x01\x12\x20"

// Key is a job key: it signs the jobs of whoever has it, and says whose they are. The zero Key
// signs nothing.
type Key struct{ private ed25519.PrivateKey }

// NewKey is the job key of an Ed25519 key.
func NewKey(private ed25519.PrivateKey) Key { return Key{private} }

// ID is the ID that a peer with that key would have, and the poster of its jobs; nil of the zero
// Key.
func (k Key) ID() []byte {
	if k.private == nil {
		return nil
	}
	public := k.private.Public().(ed25519.PublicKey) // as its documentation promises
	return append([]byte(keyHead), public...)
}

// Sign makes a job one of that key.
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

// signedState are the bytes that are signed of a standing.
func signedState(id ID, s Standing) []byte {
	text := append([]byte(stateContext), id[:]...)
	text = binary.BigEndian.AppendUint32(text, uint32(s.State))
	return binary.BigEndian.AppendUint64(text, s.Version)
}

// Vouched returns a standing of the job that somebody told, or [ErrSignature]: of a signed job what
// its poster's key has signed holds, and that it runs as it was posted. Of a job that is not signed
// all holds, and a signature is left out.
func (s *Spec) Vouched(told Standing) (Standing, error) {
	if !s.Signed() || told.State == StateRunning && told.Version == 1 {
		told.Signature = ""
		return told, nil
	}
	public, ok := publicKey(s.Poster)
	if !ok || !ed25519.Verify(public, signedState(s.ID, told), []byte(told.Signature)) {
		return Standing{}, fmt.Errorf("job %s is %s, version %d: %w", s.ID, told.State, told.Version, ErrSignature)
	}
	return told, nil
}

// Believed is what holds of a standing that may not be vouched for: then the job runs as posted.
func (s *Spec) Believed(told Standing) Standing {
	held, err := s.Vouched(told)
	if err != nil {
		return Posted()
	}
	return held
}

// by is as much of a spec as tells what of its standings is vouched for.
func by(m *wire.JobSpec) *Spec {
	return &Spec{ID: ID(m.GetId()), Poster: m.GetPoster(), Signature: m.GetSignature()}
}

// publicKey reads the key that is in an ID; false of one that has none in it.
func publicKey(id []byte) (ed25519.PublicKey, bool) {
	public, ok := bytes.CutPrefix(id, []byte(keyHead))
	return public, ok && len(public) == ed25519.PublicKeySize
}

// Signed says whether the poster's key signed the job. Without a signature anybody may have made
// it.
func (s *Spec) Signed() bool { return len(s.Signature) > 0 }

// signed are the bytes that are signed: the spec as it travels, but for the signature, its fields
// in the order of their numbers.
func (s *Spec) signed() ([]byte, error) {
	m := s.Wire()
	m.Signature = nil
	text, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte(specContext), m)
	if err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	return text, nil
}

// verify refuses a signature that is wrong. Fields that are not known here are not in what is
// signed, so a job that uses one is refused, which is better than to crawl it without.
func (s *Spec) verify() error {
	if !s.Signed() {
		return nil
	}
	public, ok := publicKey(s.Poster)
	if !ok {
		return fmt.Errorf("job spec %s: signed, and its poster is no Ed25519 key: %w", s.ID, ErrSignature)
	}
	text, err := s.signed()
	if err != nil {
		return err
	}
	if !ed25519.Verify(public, text, s.Signature) {
		return fmt.Errorf("job spec %s: %w (or it was made by another version, which knows more)", s.ID, ErrSignature)
	}
	return nil
}
