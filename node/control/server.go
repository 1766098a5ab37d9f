package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"
)

// MaxRequest limits the body of one API request: a job with 10,000 long seeds fits.
const MaxRequest = 64 << 20

// Server serves a Backend on a listener.
type Server struct {
	backend Backend
	token   string
	log     *slog.Logger
	more    map[string]http.Handler
}

// NewServer returns a server; Serve runs it. Requests over TCP need the token.
func NewServer(b Backend, token string, log *slog.Logger) *Server {
	return &Server{backend: b, token: token, log: log, more: make(map[string]http.Handler)}
}

// Handle adds a handler to those of the API, before Serve. The pattern is one of http.ServeMux.
func (s *Server) Handle(pattern string, h http.Handler) { s.more[pattern] = h }

// Answers reports whether a process listens at the API's address.
func Answers(ctx context.Context, addr string) bool {
	network, target := splitAddr(addr)
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, target)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// Listen listens on the API's address: a Unix socket path, or tcp:HOST:PORT, which must be loopback
// unless remote is set. It replaces the socket file of a dead process. A socket that accepts
// connections is an error, because two peers must not share a data directory, and so is a file that
// is not a socket.
func Listen(ctx context.Context, addr string, remote bool) (net.Listener, error) {
	network, target := splitAddr(addr)
	if network == "tcp" {
		return ListenTCP(ctx, "api", target, remote)
	}
	if Answers(ctx, addr) {
		return nil, fmt.Errorf("api %s: in use by another peer", target)
	}
	if err := removeStale(target); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, network, target)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	if err := os.Chmod(target, 0o600); err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("api: %w", err)
	}
	return ln, nil
}

// removeStale removes the socket of a dead process, and no other file that --api names by mistake.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 && runtime.GOOS != "windows" { // where sockets have no mode bit
		return fmt.Errorf("%s is not a socket", path)
	}
	return os.Remove(path)
}

// OnTCP is the prefix of an API address on TCP.
const OnTCP = "tcp:"

// splitAddr splits an --api value into network and address.
func splitAddr(addr string) (network, target string) {
	if rest, ok := strings.CutPrefix(addr, OnTCP); ok {
		return "tcp", rest
	}
	return "unix", strings.TrimPrefix(addr, "unix:")
}

// Serve serves requests on ln until ctx ends, then waits briefly for running ones.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	h := s.routes()
	if WantsToken(ln) {
		h = bearer(s.token, h) // an empty token rejects every request
	}
	return ServeHTTP(ctx, "api", ln, &http.Server{Handler: local(clientHost, h), ReadHeaderTimeout: headerTime}, s.log)
}

// clientHost is the Host of this package's client.
const clientHost = "peer"

func (s *Server) routes() http.Handler {
	b := s.backend
	mux := http.NewServeMux()
	get := func(path string, fn func(r *http.Request) (any, error)) { mux.HandleFunc("GET "+path, s.document(fn)) }
	post := func(path string, fn func(r *http.Request) (any, error)) { mux.HandleFunc("POST "+path, s.document(fn)) }
	get("/v1/status", func(r *http.Request) (any, error) { return b.Status(r.Context(), flag(r, "ring")) })
	get("/v1/ring", func(r *http.Request) (any, error) { return b.Ring(r.Context()) })
	get("/v1/lookup", func(r *http.Request) (any, error) { return b.Lookup(r.Context(), r.FormValue("q")) })
	get("/v1/peers", func(r *http.Request) (any, error) { return b.Peers(r.Context()) })
	get("/v1/host", func(r *http.Request) (any, error) { return b.Host(r.Context(), r.FormValue("host")) })
	get("/v1/why", func(r *http.Request) (any, error) { return b.Why(r.Context(), r.FormValue("url")) })
	post("/v1/members/invite", func(r *http.Request) (any, error) {
		valid, err := time.ParseDuration(cmp.Or(r.FormValue("for"), "0s"))
		if err != nil || valid < 0 {
			return nil, Usage(fmt.Sprintf("for %q: must be a duration", r.FormValue("for")))
		}
		return b.Invite(r.Context(), r.FormValue("peer"), valid)
	})
	post("/v1/members/revoke", func(r *http.Request) (any, error) { return struct{}{}, b.Revoke(r.Context(), r.FormValue("peer")) })
	post("/v1/members/accept", func(r *http.Request) (any, error) { return b.Accept(r.Context(), r.FormValue("certificate")) })
	get("/v1/optouts", func(r *http.Request) (any, error) { return b.OptOuts(r.Context()) })
	get("/v1/optouts/check", func(r *http.Request) (any, error) { return b.OptOutCheck(r.Context(), r.FormValue("url")) })
	post("/v1/optouts", func(r *http.Request) (any, error) {
		return b.SetOptOut(r.Context(), r.FormValue("subject"), r.FormValue("action"))
	})
	get("/v1/jobs", func(r *http.Request) (any, error) { return b.Jobs(r.Context()) })
	get("/v1/jobkey", func(r *http.Request) (any, error) { return b.JobKey(r.Context()) })
	get("/v1/jobs/{id}", func(r *http.Request) (any, error) { return b.Job(r.Context(), r.PathValue("id")) })
	post("/v1/jobs/{id}/{action}", func(r *http.Request) (any, error) {
		return b.SetJob(r.Context(), r.PathValue("id"), r.PathValue("action"))
	})
	post("/v1/jobs/{id}/refresh", func(r *http.Request) (any, error) {
		return b.SetRefresh(r.Context(), r.PathValue("id"), r.FormValue("refresh"))
	})
	post("/v1/refresh", func(r *http.Request) (any, error) {
		return b.Refresh(r.Context(), r.FormValue("target"), flag(r, "now"))
	})
	post("/v1/jobs/{id}/seeds", func(r *http.Request) (any, error) {
		var urls []string
		if err := decode(r.Body, MaxRequest, &urls); err != nil {
			return nil, Usage("seeds: " + err.Error())
		}
		return struct{}{}, b.AddSeeds(r.Context(), r.PathValue("id"), urls)
	})
	post("/v1/jobs", func(r *http.Request) (any, error) {
		var spec JobSpec
		if err := decode(r.Body, MaxRequest, &spec); err != nil {
			if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
				return nil, Usage(fmt.Sprintf("job: more than %d MiB; post its seeds as several jobs", MaxRequest>>20))
			}
			return nil, Usage("job: " + err.Error())
		}
		return b.Post(r.Context(), spec)
	})
	post("/v1/pause", func(r *http.Request) (any, error) {
		d, err := pauseTime(r.Body)
		if err != nil {
			return nil, err
		}
		return b.Pause(r.Context(), d)
	})
	post("/v1/resume", func(r *http.Request) (any, error) { return b.Resume(r.Context()) })
	get("/v1/limits", func(r *http.Request) (any, error) { return b.Limits(r.Context()) })
	post("/v1/limits", func(r *http.Request) (any, error) {
		values, err := limitValues(r.Body)
		if err != nil {
			return nil, err
		}
		return b.SetLimits(r.Context(), values)
	})
	post("/v1/dashboard", func(r *http.Request) (any, error) { return b.Dashboard(r.Context()) })
	post("/v1/leave", func(r *http.Request) (any, error) { return struct{}{}, b.Leave(r.Context()) })

	mux.HandleFunc("GET /v1/watch", stream(func(r *http.Request, emit func(any) error) error {
		return b.Watch(r.Context(), func(e RingEvent) error { return emit(e) })
	}))
	mux.HandleFunc("GET /v1/wait", stream(func(r *http.Request, emit func(any) error) error {
		patience, err := patienceOf(r)
		if err != nil {
			return err
		}
		return b.Wait(r.Context(), r.FormValue("job"), patience, func(p Progress) error { return emit(p) })
	}))
	mux.HandleFunc("GET /v1/hosts", stream(func(r *http.Request, emit func(any) error) error {
		return b.Hosts(r.Context(), flag(r, "ring"), func(h HostLine) error { return emit(h) })
	}))
	get("/v1/archives", func(r *http.Request) (any, error) { return b.Archives(r.Context(), flag(r, "ring")) })
	get("/v1/urls", func(r *http.Request) (any, error) {
		return b.URLs(r.Context(), r.FormValue("peer"), r.FormValue("after"))
	})
	mux.HandleFunc("GET /v1/archives/{peer}/{name}", s.archiveFile)
	for pattern, h := range s.more {
		mux.Handle(pattern, h)
	}
	return mux
}

// patienceOf parses the wait limit of a request; negative: the peer's default.
func patienceOf(r *http.Request) (time.Duration, error) {
	text := r.FormValue("patience")
	if text == "" {
		return -1, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, Usage(fmt.Sprintf("patience %q: must be a duration with a unit, such as 10m or 2h; 0 is no limit", text))
	}
	return d, nil
}

func flag(r *http.Request, name string) bool {
	v := r.FormValue(name)
	return v == "1" || v == "true"
}

// document responds with one JSON document.
func (s *Server) document(fn func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := fn(r)
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			e := asError(err)
			w.WriteHeader(httpStatus(e.Kind))
			v = e
		}
		if err := json.NewEncoder(w).Encode(v); err != nil {
			s.log.Debug("api response not delivered", "path", r.URL.Path, "err", err)
		}
	}
}

// streamEnd is the last line of a stream; without it the stream is truncated.
type streamEnd struct {
	End   bool   `json:"end"`
	Error *Error `json:"error,omitempty"`
}

// stream responds with one JSON document per line and a final streamEnd.
func stream(fn func(r *http.Request, emit func(any) error) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		enc := json.NewEncoder(w)
		out := http.NewResponseController(w)
		_ = out.Flush()
		err := fn(r, func(v any) error {
			if err := enc.Encode(v); err != nil {
				return err
			}
			return out.Flush()
		})
		end := streamEnd{End: true}
		if err != nil {
			end.Error = asError(err)
		}
		_ = enc.Encode(end) // the client may be gone
	}
}

func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Kind: e.Kind, Text: err.Error()}
	}
	return &Error{Kind: KindOf(err), Text: err.Error()}
}

func httpStatus(k Kind) int {
	switch k {
	case KindUsage:
		return http.StatusBadRequest
	case KindRefused:
		return http.StatusForbidden
	case KindTimeout:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}
