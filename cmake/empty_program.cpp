// Linked with the objects of a layer, to see that they need no other ones (CMakeLists.txt).
int main() {}
