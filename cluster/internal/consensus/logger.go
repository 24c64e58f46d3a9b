package consensus

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// logger writes what raft logs to a slog.Logger. Raft's info is of interest to those who debug raft only,
// so it becomes debug.
type logger struct {
	to   *slog.Logger
	name string
	args []any
}

func newLogger(to *slog.Logger) hclog.Logger { return &logger{to: to} }

func slogLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Error:
		return slog.LevelError
	}
	return slog.LevelDebug
}

func (l *logger) Log(level hclog.Level, msg string, args ...any) {
	to := slogLevel(level)
	if !l.to.Enabled(context.Background(), to) {
		return
	}
	plain := make([]any, len(args))
	for i, a := range args {
		plain[i] = a
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			plain[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	l.to.Log(context.Background(), to, "raft: "+msg, plain...)
}

func (l *logger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *logger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *logger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *logger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *logger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *logger) enabled(level hclog.Level) bool {
	return l.to.Enabled(context.Background(), slogLevel(level))
}

func (l *logger) IsTrace() bool { return l.enabled(hclog.Trace) }
func (l *logger) IsDebug() bool { return l.enabled(hclog.Debug) }
func (l *logger) IsInfo() bool  { return l.enabled(hclog.Info) }
func (l *logger) IsWarn() bool  { return l.enabled(hclog.Warn) }
func (l *logger) IsError() bool { return l.enabled(hclog.Error) }

func (l *logger) ImpliedArgs() []any { return l.args }
func (l *logger) Name() string       { return l.name }

func (l *logger) With(args ...any) hclog.Logger {
	return &logger{to: l.to.With(args...), name: l.name, args: append(l.args[:len(l.args):len(l.args)], args...)}
}

func (l *logger) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

func (l *logger) ResetNamed(name string) hclog.Logger {
	return &logger{to: l.to, name: name, args: l.args}
}

// SetLevel has no effect: the slog.Handler decides.
func (l *logger) SetLevel(hclog.Level) {}

func (l *logger) GetLevel() hclog.Level {
	for _, level := range []hclog.Level{hclog.Debug, hclog.Warn} {
		if l.enabled(level) {
			return level
		}
	}
	return hclog.Error
}

func (l *logger) StandardLogger(o *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(o), "", 0)
}

func (l *logger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return logWriter{l} }

type logWriter struct{ l *logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.l.Debug(string(p))
	return len(p), nil
}
