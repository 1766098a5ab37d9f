package link

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// readShared reads a JSON file of the test data that lies beside the repository, or skips the test.
func readShared(t *testing.T, name string, into any) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "shared", "testdata", name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Skip("shared test data not found: " + name)
}
