package storage

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/sievedb/sievedb/vfs"
)

// maxLog is the size at which LOG becomes LOG.old.
const maxLog = 1 << 20

// messageLog writes the file LOG. The zero messageLog drops messages.
type messageLog struct {
	f    *os.File
	fs   vfs.FS
	name string
	size int64
	day  int
}

func (l *messageLog) open(fsys vfs.FS, name string) error {
	made, err := fsys.Create(name) // it refuses links, but does not open for appending
	if err == nil {
		err = made.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return plain(err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|noFollow|noBlock, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is not a plain file")}
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	*l = messageLog{f: f, fs: fsys, name: name, size: info.Size()}
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
		if os.Rename(l.name, l.name+".old") != nil || l.open(l.fs, l.name) != nil {
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
