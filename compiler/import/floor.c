/* glibc 2.32 says here whether atomic operations can be spared; libstdc++'s headers ask it. For libraries that have to load with an older one. */
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
