package dashboard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/datadir"
)

// SecretFile is the file in the data directory with the secret of the cookies. Removing it ends all
// logins at the next start.
const SecretFile = "dashboard.secret"

const (
	secretSize = 32
	// ticketTime is the lifetime of a login link; maxTickets limits unused tickets, the oldest is
	// dropped first.
	ticketTime = 15 * time.Minute
	maxTickets = 16
	// loginTime is the lifetime of a login.
	loginTime = 30 * 24 * time.Hour
)

// readSecret reads the secret of a data directory, and creates it at the first start.
func readSecret(dir string) ([]byte, error) {
	path := filepath.Join(dir, SecretFile)
	raw, err := os.ReadFile(path)
	if err == nil && len(raw) == secretSize {
		return raw, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dashboard secret: %w", err)
	}
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // never fails
	if err := datadir.Replace(path, secret); err != nil {
		return nil, fmt.Errorf("dashboard secret: %w", err)
	}
	return secret, nil
}

// guard authenticates browsers. It is safe for concurrent use.
type guard struct {
	cookie  string // its name
	session string // its value when logged in
	form    string // token in forms

	mu      sync.Mutex // guards tickets
	tickets []ticket   // oldest first
}

type ticket struct {
	hash  [sha256.Size]byte
	until time.Time
}

// newGuard returns a guard with the secret. Name distinguishes the cookies of pages on one address,
// because ports do not.
func newGuard(secret []byte, name string) *guard {
	derive := func(use string) string {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(use))
		return hex.EncodeToString(mac.Sum(nil))
	}
	return &guard{cookie: "apoidea-" + name, session: derive("session"), form: derive("form")}
}

// ticket returns the secret part of a one-time login link.
func (g *guard) ticket(now time.Time) string {
	text := rand.Text()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expire(now)
	if len(g.tickets) == maxTickets {
		g.tickets = g.tickets[1:]
	}
	g.tickets = append(g.tickets, ticket{sha256.Sum256([]byte(text)), now.Add(ticketTime)})
	return text
}

func (g *guard) expire(now time.Time) {
	for len(g.tickets) > 0 && !now.Before(g.tickets[0].until) {
		g.tickets = g.tickets[1:]
	}
}

// redeem consumes a ticket; false if it is invalid, used or expired.
func (g *guard) redeem(text string, now time.Time) bool {
	hash := sha256.Sum256([]byte(text))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expire(now)
	for i := range g.tickets {
		if g.tickets[i].hash == hash { // hashes, so that timing does not leak the ticket
			g.tickets = append(g.tickets[:i:i], g.tickets[i+1:]...)
			return true
		}
	}
	return false
}

// knows reports whether a request is from a logged-in browser.
func (g *guard) knows(r *http.Request) bool {
	c, err := r.Cookie(g.cookie)
	return err == nil && same(c.Value, g.session)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// byAddress rejects requests with a host name, against DNS rebinding.
func byAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !control.IsAddress(r.Host) {
			http.Error(w, "use an IP address or localhost as host, not a name", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// contentPolicy allows only resources of this server, so that no injected script, style or form
// works. The style sheet is inline, which saves a round trip, and allowed by its SHA-256.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'sha256-%s'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types apoidea"

// careful sets the security headers of every response.
func careful(policy string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
