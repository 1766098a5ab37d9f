package jobs

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/control"
)

// TestKeyIsAPeersKey: the ID of a job key is that of the peer whose identity it is.
func TestKeyIsAPeersKey(t *testing.T) {
	identity, err := member.GenerateIdentity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := KeyOf(identity)
	id, ierr := peer.IDFromPrivateKey(identity)
	if err != nil || ierr != nil || peer.ID(key.ID()) != id {
		t.Errorf("%s, %v; want %s, %v", peer.ID(key.ID()), err, id, ierr)
	}
}

// TestKeyFile: a key is made where there is none, for its user alone, and stays.
func TestKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.key")
	key, err := ReadKey(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	again, err := ReadKey(file)
	if err != nil || string(again.ID()) != string(key.ID()) {
		t.Errorf("another key, %v", err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := member.UnmarshalIdentity(raw); err != nil {
		t.Errorf("it is no identity: %v", err)
	}
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(file); control.KindOf(err) != control.KindUsage || !strings.Contains(err.Error(), file) {
		t.Errorf("a file without a key: %v", err)
	}
	if _, err := ReadKey(filepath.Join(t.TempDir(), "nowhere", "job.key")); err == nil {
		t.Error("made in a directory that is not there")
	}
}
