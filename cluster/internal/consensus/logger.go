package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// logger writes what raft logs to a slog.Logger. Raft's info is of interest to those who debug raft only, so it becomes
// debug. Raft calls no other methods than those here.
type logger struct {
	hclog.Logger // does nothing
	to           *slog.Logger
}

func newLogger(to *slog.Logger) hclog.Logger { return &logger{hclog.NewNullLogger(), to} }

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
		var logged interface{ Logged() bool }
		if err, ok := a.(error); ok && errors.As(err, &logged) {
			to = slog.LevelDebug // raft tries again and again, and what lies below says it once
		}
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

func (l *logger) With(args ...any) hclog.Logger { return newLogger(l.to.With(args...)) }
