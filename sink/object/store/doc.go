// Package store is what the object sink needs of a place that keeps objects: a
// folder (package file) now; S3, Google Cloud Storage and Azure later.
//
// It is shaped after multipart uploads, the narrowest of them all: an upload
// is created under a staged name, takes parts, is finished when the final name
// is known, and from then on is durable but invisible until Complete. A store
// whose uploads need the final key at their beginning spools the parts and
// uploads them in Finish.
//
// What every store upholds:
//
//  1. Nothing of an upload is visible under a final name before Complete, and
//     everything is after it: a reader never sees a part of an object.
//  2. Complete never overwrites, and is idempotent across processes: two that
//     complete the same upload at once both succeed, and one object results.
//  3. "Not found" is not success: an upload that is gone counts as complete
//     only where the final object is there with the same size and checksum.
//  4. Abort of what does not exist is success.
package store
