# cmake -DARCHIVE=... -DOUT=... -P: a header with the hash of the kernel library.
file(SHA256 ${ARCHIVE} hash)
string(SUBSTRING ${hash} 0 16 hash)
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define AOTC_KERNEL_LIBRARY_HASH \"${hash}\"\n")
