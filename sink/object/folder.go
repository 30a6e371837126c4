package object

import (
	"errors"
	"fmt"
	"strings"
)

const (
	maxFolder  = 512 // bytes of a partition's path
	maxSegment = 200 // bytes of one folder's name
)

// folderOf makes the path of a folder from what partition_by gave. Slashes
// separate folders. A byte that a file system or a query engine may take amiss
// is written as %XX, as Hive does; so is a dot or underscore at the start of a
// name, which would hide the folder.
func folderOf(value string) (string, error) {
	if value == "" {
		return "", errors.New("partition_by gives an empty string")
	}
	parts := strings.Split(value, "/")
	for i, p := range parts {
		if p == "" {
			return "", fmt.Errorf("partition_by gives %q, in which a folder has no name", clip(value))
		}
		parts[i] = escapeFolder(p)
		if len(parts[i]) > maxSegment {
			return "", fmt.Errorf("partition_by gives %q, in which a folder's name is longer than %d bytes", clip(value), maxSegment)
		}
	}
	path := strings.Join(parts, "/")
	if len(path) > maxFolder {
		return "", fmt.Errorf("partition_by gives %q, which is longer than %d bytes", clip(value), maxFolder)
	}
	return path, nil
}

func escapeFolder(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		ok := plain(c) || c >= 0x80 || strings.IndexByte("=.,+@~ ", c) >= 0
		first, last := i == 0, i == len(s)-1
		if first && (c == '.' || c == '_' || c == ' ') || last && (c == '.' || c == ' ') {
			ok = false
		}
		if ok {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}
