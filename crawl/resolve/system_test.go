package resolve

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestSystemServers checks what is taken from resolv.conf: servers with their port, and search
// domains that are names.
func TestSystemServers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("search Corp.test. a..b .\nnameserver 192.0.2.1\nnameserver 2001:db8::1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	servers, search := systemServers(file)
	if want := []string{"192.0.2.1:53", "[2001:db8::1]:53"}; !slices.Equal(servers, want) {
		t.Errorf("servers %q, want %q", servers, want)
	}
	if want := []string{"corp.test"}; !slices.Equal(search, want) {
		t.Errorf("search domains %q, want %q", search, want)
	}
	if servers, search := systemServers(file + ".none"); !slices.Equal(servers, []string{"127.0.0.1:53"}) || search != nil {
		t.Errorf("without the file: %q, %q", servers, search)
	}
}
