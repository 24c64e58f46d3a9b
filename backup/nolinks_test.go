package backup_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Without links, as on FAT, of several writers of one segment exactly one succeeds: the name is the same for all.
func TestASegmentIsNotReplacedWithoutLinks(t *testing.T) {
	mem := vfs.NewMem()
	const name = "segments/20260301T120000.000000000Z-0123456789abcdef/000000000001"
	open := func(beforeRename func()) backup.Storage {
		return newDir(t, wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			switch {
			case op.Kind == wrap.OpLink:
				return &wrap.Fault{Err: syscall.EPERM}
			case op.Kind == wrap.OpRename && beforeRename != nil:
				beforeRename()
			}
			return nil
		}), "repo")
	}
	var group sync.WaitGroup
	var other error
	group.Add(1)
	late := open(nil)
	s := open(func() {
		go func() {
			defer group.Done()
			other = late.Create(background, name, strings.NewReader("other"))
		}()
		ctx, cancel := context.WithCancel(background)
		end := readerFunc(func([]byte) (int, error) { // it waits for the lock then
			cancel()
			return 0, io.EOF
		})
		require.ErrorIs(t, open(nil).Create(ctx, name, end), context.Canceled)
	})
	require.NoError(t, s.Create(background, name, strings.NewReader("first")))
	group.Wait()
	require.ErrorIs(t, other, fs.ErrExist)
	file := result.Of(s.Open(background, name))(t)
	defer file.Close()
	var text string
	result.Of(fmt.Fscan(file, &text))(t)
	require.Equal(t, "first", text)
	names := result.Of(mem.List("repo/tmp"))(t)
	require.Equal(t, []string{"LOCK"}, names)
}
