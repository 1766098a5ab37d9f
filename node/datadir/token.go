package datadir

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// TokenFile is a file in the data directory with the token of an API on TCP. Removing it has the
// next start draw another.
const TokenFile = "api.token"

// The length that a token may have, in bytes: rand.Text has 26.
const (
	minToken = 16
	maxToken = 1024
)

// Token is the token that lies in a file: the one named, or that of dir if file is empty.
func Token(dir, file string) (string, error) {
	file = cmp.Or(file, filepath.Join(dir, TokenFile))
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(raw))
	if len(token) < minToken || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s: a token has %d to %d letters, digits and signs, on one line", file, minToken, maxToken)
	}
	return token, nil
}

// DrawToken is Token, which is drawn where dir has none yet.
func DrawToken(dir, file string) (string, error) {
	token, err := Token(dir, file)
	if file != "" || !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	token = rand.Text()
	return token, Replace(filepath.Join(dir, TokenFile), []byte(token+"\n"))
}
