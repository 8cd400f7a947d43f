#include "import/reference.h"
