package logs

import (
	"context"
	"log/slog"
	"time"

	golog "github.com/ipfs/go-log/v2"
	"github.com/libp2p/go-libp2p/gologshim"
	"go.uber.org/zap/zapcore"
)

// Capture sends the log lines of libraries to h: package log and slog's default logger (HTTP/2,
// QUIC), go-log and libp2p. It changes state of the process and is for main packages. Of libp2p and
// go-log it takes errors only, because they warn about ordinary network failures.
func Capture(h *Handler) {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	slog.SetDefault(slog.New(h.library("default", slog.LevelDebug))) // also sets the output of package log
	gologshim.SetDefaultHandler(h.library("libp2p", slog.LevelError))
	format := zapcore.EncoderConfig{NameKey: "name", MessageKey: "message", ConsoleSeparator: ": ", SkipLineEnding: true}
	golog.SetPrimaryCore(zapcore.NewCore(zapcore.NewConsoleEncoder(format), zapcore.AddSync(lines{h.library("go-log", slog.LevelError)}), zapcore.ErrorLevel))
}

// lines logs each write as one message at level error.
type lines struct{ slog.Handler }

func (l lines) Write(line []byte) (int, error) {
	return len(line), l.Handle(context.Background(), slog.NewRecord(time.Now(), slog.LevelError, string(line), 0))
}
