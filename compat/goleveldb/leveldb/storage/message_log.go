package storage

import (
	"os"
	"time"
)

// maxLog is the size at which LOG becomes LOG.old.
const maxLog = 1 << 20

// messageLog writes the file LOG. The zero messageLog drops messages.
type messageLog struct {
	f    *os.File
	name string
	size int64
	day  int
}

func (l *messageLog) open(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, fileMode)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return err
	}
	*l = messageLog{f: f, name: name, size: info.Size()}
	return nil
}

// print appends a line. A failure loses messages, and nothing else.
func (l *messageLog) print(message string) {
	if l.f == nil {
		return
	}
	if l.size > maxLog {
		_ = l.f.Close()
		l.f = nil
		if os.Rename(l.name, l.name+".old") != nil || l.open(l.name) != nil {
			return
		}
	}
	now := time.Now()
	text := now.Format("15:04:05.000000 ") + message + "\n"
	if l.day != now.YearDay() {
		l.day = now.YearDay()
		text = "=============== " + now.Format("Jan 2, 2006 (MST)") + " ===============\n" + text
	}
	n, _ := l.f.WriteString(text)
	l.size += int64(n)
}

func (l *messageLog) close() {
	if l.f != nil {
		_ = l.f.Close()
	}
	l.f = nil
}
