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
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/node/datadir"
)

// SecretFile is a file in the data directory from which cookies are made. Removing it ends all
// logins at the next start.
const SecretFile = "dashboard.secret"

const (
	secretSize = 32
	// ticketTime is how long a link to log in works; maxTickets bounds those that were given out
	// and not used, the oldest going first.
	ticketTime = 15 * time.Minute
	maxTickets = 16
	// loginTime is how long a browser stays logged in.
	loginTime = 30 * 24 * time.Hour
)

// readSecret reads the secret of a data directory, drawing it at the first start.
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

// guard knows who may act. It is safe for concurrent use.
type guard struct {
	cookie  string // its name
	session string // its value when logged in
	form    string // what forms carry

	mu      sync.Mutex // guards tickets
	tickets []ticket   // oldest first
}

type ticket struct {
	hash  [sha256.Size]byte
	until time.Time
}

// newGuard makes a guard of the secret. Name tells the cookies of pages on one address apart, which
// ports do not.
func newGuard(secret []byte, name string) *guard {
	derive := func(use string) string {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(use))
		return hex.EncodeToString(mac.Sum(nil))
	}
	return &guard{cookie: "apoidea-" + name, session: derive("session"), form: derive("form")}
}

// ticket makes the secret part of a link that logs in once.
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

// redeem uses a ticket up; false if it is none, was used, or is too old.
func (g *guard) redeem(text string, now time.Time) bool {
	hash := sha256.Sum256([]byte(text))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expire(now)
	for i := range g.tickets {
		if g.tickets[i].hash == hash { // of hashes: their timing tells nothing of the ticket
			g.tickets = append(g.tickets[:i:i], g.tickets[i+1:]...)
			return true
		}
	}
	return false
}

// admit sets the cookie of somebody who came with a ticket.
func (g *guard) admit(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{
		Name: g.cookie, Value: g.session, Path: "/", MaxAge: int(loginTime.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// knows says whether a request comes from a browser that logged in.
func (g *guard) knows(r *http.Request) bool {
	c, err := r.Cookie(g.cookie)
	return err == nil && same(c.Value, g.session)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// byAddress turns away requests under a name that somebody pointed at this machine: a page of
// theirs would be of the same origin then.
func byAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isAddress(r.Host) {
			http.Error(w, "ask by address (or localhost), not by name", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isAddress(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil
}

// contentPolicy lets the page use what this server serves, and nothing else: no script, style or
// form of a stranger's making would run. The style sheet is in the page, which saves the first
// paint a round trip, and is named by its SHA-256.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'sha256-%s'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types apoidea"

// careful sets the headers that every answer has.
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
