package base

import (
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base/errors"
)

func TestNoSpaceRecognizesAFullDisk(t *testing.T) {
	for _, cause := range []error{
		syscall.ENOSPC,
		syscall.EDQUOT,
		&fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC},
		errors.Wrap(&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.ENOSPC}, "context"),
	} {
		require.True(t, IsNoSpace(cause))
		err := NoSpace(cause)
		require.True(t, errors.Is(err, ErrNoSpace))
		require.True(t, errors.Is(err, cause), "the cause is preserved")
		require.Same(t, err, NoSpace(err), "marked once")
		require.True(t, errors.Is(errors.Wrap(err, "outside"), ErrNoSpace))
	}
	for _, other := range []error{nil, syscall.EIO, ErrReadOnly, fs.ErrNotExist} {
		require.False(t, IsNoSpace(other))
		require.Equal(t, other, NoSpace(other))
	}
}

func TestARefusedWriteIsOneWithoutPermissionOrOfAReadOnlyFileSystem(t *testing.T) {
	for _, refused := range []error{syscall.EACCES, syscall.EPERM, &fs.PathError{Op: "mkdir", Path: "d", Err: syscall.EROFS}} {
		require.True(t, IsWriteRefused(errors.Wrap(refused, "context")))
	}
	for _, other := range []error{nil, syscall.EIO, syscall.ENOSPC, fs.ErrNotExist} {
		require.False(t, IsWriteRefused(other))
	}
}
