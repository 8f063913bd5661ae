package recovery

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncRange brings a part of a file's data to disk, without the filesystem's own records: the file still needs its fsync.
func syncRange(f *os.File, from, size int64) error {
	err := unix.SyncFileRange(int(f.Fd()), from, size, unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	for _, missing := range []error{unix.ENOSYS, unix.EPERM, unix.EINVAL, unix.ESPIPE, unix.EOPNOTSUPP} {
		if errors.Is(err, missing) { // a kernel, filesystem or sandbox without it: the fsync does it all at once
			return nil
		}
	}
	return os.NewSyscallError("sync_file_range", err)
}
