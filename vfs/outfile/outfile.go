// Package outfile makes the files of commands, so that other users of the machine cannot choose where they are
// written, nor what is continued. In a directory such as /tmp, another user may have made a link, a pipe or a file with
// the name that a command is about to write.
//
// No function follows a symbolic link as the last element of a name; those further up in the path are followed. What
// this user owns is what vfs.CheckOwn says. Systems other than Unix have no owners here, and check links before they
// open. Errors that refuse a file match vfs.ErrNotOwn or, for links, vfs.ErrSymlink. Functions may be called from any
// goroutine.
package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/vfs"
)

// Create opens the file that the user named for the output of a command, and empties it. mode is that of a new file,
// before the umask. A plain file that exists must belong to this user and have no other name (hard link). The names of
// descriptors, such as /dev/stdout and /dev/fd/3, are appended to; devices such as /dev/null and pipes of this user are
// written to. Anything else is an error.
func Create(name string, mode fs.FileMode) (*os.File, error) {
	f, err := open(name, mode, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && !isDescriptor(name) {
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Write is Create with all of the content.
func Write(name string, content []byte, mode fs.FileMode) error {
	f, err := Create(name, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// Append is Create, but a plain file keeps its content, and is written at its end.
func Append(name string, mode fs.FileMode) (*os.File, error) { return open(name, mode, os.O_APPEND) }

// Check returns the error that Create would return. It changes nothing: a file that it made is removed. So a run of
// hours does not fail at its end. It does not open pipes and descriptors, whose readers would see that it closes them.
func Check(name string) error {
	info, err := os.Lstat(name)
	switch {
	case isDescriptor(name):
		return nil
	case err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0:
		return checkSpecial(name, info)
	}
	f, openErr := open(name, 0o600, 0)
	if openErr != nil {
		return openErr
	}
	closeErr := f.Close()
	if err != nil { // it did not exist before
		closeErr = errors.Join(closeErr, os.Remove(name))
	}
	return closeErr
}

// New makes a file for reading and writing. If the name exists, even as a link, the error is fs.ErrExist.
func New(name string, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
}

// Replace makes a file with the content, and gives it a name that may exist: a file or a link with that name is
// replaced, not written to. The content is durable before it gets the name, so a power cut leaves the old file or the
// new one. A crash may leave a file whose name ends with ".tmp".
func Replace(name string, content []byte, mode fs.FileMode) (err error) {
	temp, f := "", (*os.File)(nil)
	for range 100 { // so many names that are taken are no chance
		temp = fmt.Sprintf("%s.%016x.tmp", name, rand.Uint64())
		if f, err = New(temp, mode); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temp))
	}
	return err
}

// OpenOwn opens a plain file that exists, to continue what an earlier command of this user has written. flags are those
// of os.OpenFile, without os.O_CREATE and os.O_TRUNC. A file that another user owns or can write, as vfs.CheckOwn says,
// is an error that matches vfs.ErrNotOwn, and so is one that has another name (hard link): it may be any file of this
// user.
func OpenOwn(name string, flags int) (*os.File, error) {
	return openPlain(name, flags, func(info fs.FileInfo) error { return vfs.CheckOwn(name, info) })
}

// ReadOwn returns the content of a file of OpenOwn. One with more than limit bytes is an error.
func ReadOwn(name string, limit int64) ([]byte, error) {
	f, err := OpenOwn(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return content, err
}

// open opens a file for Create and Append.
func open(name string, mode fs.FileMode, flags int) (*os.File, error) {
	if isDescriptor(name) {
		return os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|flags, mode)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0 {
		return openSpecial(name, info)
	}
	f, err = openPlain(name, os.O_WRONLY|flags, func(info fs.FileInfo) error { return vfs.CheckOwn(name, anyMode{info}) })
	if errors.Is(err, vfs.ErrNotOwn) {
		err = fmt.Errorf("%w; remove it, or choose another name", err)
	}
	return f, err
}

// openSpecial opens a device, which only root can make, or a pipe of this user. It waits for the reader of the pipe.
func openSpecial(name string, found fs.FileInfo) (*os.File, error) {
	if err := checkSpecial(name, found); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Type() != found.Mode().Type() {
		err = fmt.Errorf("%s was exchanged while it was opened", name)
	}
	if err == nil {
		err = checkSpecial(name, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checkSpecial refuses a pipe of another user, who would read what is written.
func checkSpecial(name string, info fs.FileInfo) error {
	if info.Mode()&fs.ModeCharDevice != 0 {
		return nil
	}
	err := vfs.CheckOwn(name, anyMode{info})
	if err != nil {
		err = fmt.Errorf("%w; remove it, or choose another name", err)
	}
	return err
}

// openPlain opens a plain file that exists. O_NONBLOCK, in openFlags, keeps it from waiting for the other end of a
// pipe.
func openPlain(name string, flags int, check func(fs.FileInfo) error) (*os.File, error) {
	if found, err := os.Lstat(name); err == nil {
		if err := plain(name, found); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(name, flags|noFollow|noBlock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = plain(name, info)
	}
	if err == nil {
		err = check(info)
	}
	if err == nil && hasOtherNames(info) {
		err = fmt.Errorf("%s is a hard link, and has another name: %w", name, vfs.ErrNotOwn)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// plain returns an error for anything but a plain file.
func plain(name string, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return fmt.Errorf("%s is a directory; want a plain file", name)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%w; name the file that it leads to, or remove it", vfs.RefuseLink(name, info))
	}
	return fmt.Errorf("%s is not a plain file", name)
}

// anyMode describes a file as if only its owner could write it: it is about to get new content.
type anyMode struct{ fs.FileInfo }

func (a anyMode) Mode() fs.FileMode { return a.FileInfo.Mode() &^ 0o022 }

// isDescriptor reports whether a name is that of a descriptor of this process. Linux makes them links.
func isDescriptor(name string) bool {
	switch name = filepath.ToSlash(filepath.Clean(name)); name {
	case "/dev/stdout", "/dev/stderr":
		return true
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if number, ok := strings.CutPrefix(name, dir); ok {
			_, err := strconv.ParseUint(number, 10, 31)
			return err == nil
		}
	}
	return false
}
