// Package file is the object store in a folder, by url file:///abs/path or
// file://relative/path.
//
// An upload is a file below _exactly/staging of the root, thus on the same file
// system as the final objects and out of sight of query engines. Finishing
// flushes the file and its folder to disk. Completing links the file to its
// final name, which fails instead of overwriting, flushes the folder, and
// removes the staged name. Where the file system has no hard links, it renames
// after a look that the name is free; two processes can then still only rename
// the very same file.
//
// On Windows folders cannot be flushed; there the file system's journal is
// relied upon for the order of names.
package file
