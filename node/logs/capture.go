package logs

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	golog "github.com/ipfs/go-log/v2"
	"github.com/libp2p/go-libp2p/gologshim"
	"go.uber.org/zap/zapcore"
)

// Capture has everything in this process that logs by itself do so by the handler: package log (HTTP/2, QUIC), slog's default, go-log and what of libp2p has a
// logger of its own. It is for the main of a program: what it sets belongs to the process.
func Capture(h slog.Handler) {
	slog.SetDefault(slog.New(foreign(h, "default")))
	log.SetFlags(log.Llongfile)
	log.SetPrefix("")
	log.SetOutput(standard{h})
	gologshim.SetDefaultHandler(quiet{foreign(h, "libp2p")})
	golog.SetPrimaryCore(core{h: h, enabled: zapcore.ErrorLevel})
}

func foreign(h slog.Handler, component string) slog.Handler {
	return h.WithAttrs([]slog.Attr{slog.String(ComponentKey, component)})
}

// quiet lets errors of a library through: what it warns of is the network's everyday life.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError && q.Handler.Enabled(ctx, level)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }

// standard is the output of package log. Each line begins with the file and the number of the line that wrote it, from which the component is known.
type standard struct{ h slog.Handler }

func (s standard) Write(line []byte) (int, error) {
	if !s.h.Enabled(context.Background(), slog.LevelWarn) {
		return len(line), nil
	}
	component, text := "log", string(line)
	if place, rest, ok := bytes.Cut(line, []byte(": ")); ok && bytes.Contains(place, []byte(".go:")) {
		component, text = componentOf(string(place)), string(rest)
	}
	r := slog.NewRecord(time.Now(), slog.LevelWarn, strings.TrimSpace(text), 0)
	return len(line), foreign(s.h, component).Handle(context.Background(), r)
}

// componentOf returns the import path of a file, without the version of its module.
func componentOf(file string) string {
	for _, root := range []string{"/pkg/mod/", "/src/"} {
		if _, rest, ok := strings.Cut(file, root); ok {
			file = rest
		}
	}
	dir := path.Dir(file)
	if before, after, ok := strings.Cut(dir, "@"); ok {
		_, rest, _ := strings.Cut(after, "/")
		dir = path.Join(before, rest)
	}
	return cut(dir, 128)
}

// core is where go-log, which writes by zap, puts its lines.
type core struct {
	h       slog.Handler
	enabled zapcore.Level
	fields  []zapcore.Field
}

func (c core) Enabled(l zapcore.Level) bool {
	return l >= c.enabled && c.h.Enabled(context.Background(), levelOf(l))
}

func (c core) With(fields []zapcore.Field) zapcore.Core {
	c.fields = append(slices.Clip(c.fields), fields...)
	return c
}

func (c core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, levelOf(e.Level), e.Message, 0)
	values := zapcore.NewMapObjectEncoder()
	for _, list := range [][]zapcore.Field{c.fields, fields} {
		for _, f := range list {
			f.AddTo(values)
		}
	}
	for name, value := range values.Fields {
		r.AddAttrs(slog.Any(name, value))
	}
	component := e.LoggerName
	if component == "" {
		component = "go-log"
	}
	return foreign(c.h, cut(component, 128)).Handle(context.Background(), r)
}

func (c core) Sync() error { return nil }

func levelOf(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	case l == zapcore.InfoLevel:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}
