package control

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// CheckAddress validates a listen address, HOST:PORT, which must be loopback unless remote is set.
// The error names the flag.
func CheckAddress(name, addr string, remote bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return Usage(fmt.Sprintf("%s %q: must be HOST:PORT, such as 127.0.0.1:9464", name, addr))
	}
	if ip, err := netip.ParseAddr(host); !remote && host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return Usage(fmt.Sprintf("%s %q: must be a loopback address, such as 127.0.0.1; %s", name, addr, forOthers(name)))
	}
	return nil
}

// forOthers returns how to allow access by other machines.
func forOthers(name string) string {
	if name == "pprof" {
		return "use a reverse proxy for access by other machines"
	}
	return "--api-remote allows access by other machines with the token"
}

// ListenTCP listens on an address that CheckAddress accepts, and checks the resolved address again.
func ListenTCP(ctx context.Context, name, addr string, remote bool) (net.Listener, error) {
	if err := CheckAddress(name, addr, remote); err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !remote && !IsLoopback(ln) {
		_ = ln.Close()
		return nil, Usage(fmt.Sprintf("%s %q: resolves to %s, which is not loopback; %s", name, addr, ln.Addr(), forOthers(name)))
	}
	return ln, nil
}

// IsLoopback reports whether only processes of this machine can reach a TCP listener.
func IsLoopback(ln net.Listener) bool {
	tcp, ok := ln.Addr().(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// WantsToken reports whether the API on a listener requires its token: on TCP no file permissions
// protect it.
func WantsToken(ln net.Listener) bool { return ln.Addr().Network() != "unix" }

// ServeDebug serves h on a listener of ListenTCP until ctx ends, then waits briefly for running
// requests. Other machines need the token.
func ServeDebug(ctx context.Context, what string, ln net.Listener, h http.Handler, token string, log *slog.Logger) error {
	if !IsLoopback(ln) {
		h = bearer(token, h)
	}
	return ServeHTTP(ctx, what, ln, &http.Server{Handler: local("", h), ReadHeaderTimeout: headerTime}, log)
}

// headerTime is the timeout for the header of a request.
const headerTime = 10 * time.Second

// ServeHTTP runs a server on ln until ctx ends, then waits briefly for running requests.
func ServeHTTP(ctx context.Context, what string, ln net.Listener, srv *http.Server, log *slog.Logger) error {
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if srv.Shutdown(stop) != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(ln)
	if ctx.Err() == nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	wg.Wait()
	return nil
}

// local rejects DNS rebinding and cross-site requests of browsers. It accepts addresses, localhost
// and name as Host.
func local(name string, next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, _ := strings.Cut(r.Host, ":"); !IsAddress(r.Host) && (name == "" || host != name) {
			http.Error(w, "use an IP address as host, not a name", http.StatusForbidden)
			return
		}
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
			http.Error(w, "cross-site requests are rejected", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// IsAddress reports whether a Host, with or without port, is an IP address or localhost: no name
// that DNS rebinding could point here.
func IsAddress(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil || host == "localhost"
}

// bearer requires the token. It compares hashes in constant time, so that timing does not leak it.
func bearer(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(given)))
		if token != "" && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			next.ServeHTTP(w, r)
			return
		}
		text := "token missing"
		if given != "" {
			text = "wrong token for this peer"
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="apoidea"`)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(&Error{Kind: KindRefused, Text: "api: " + text + tokenCure}) // the client may be gone
	})
}

// tokenCure explains where the token is.
const tokenCure = ": set --data-dir to the peer's, which contains api.token, or --token-file to a copy of that file"
