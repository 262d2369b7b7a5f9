// C++ with exceptions, virtual calls, templates and thread_local objects.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

thread_local std::string last = "none";
thread_local int counter = 10;

struct Shape {
    virtual ~Shape() { counter++; }
    virtual double area() const = 0;
};
struct Square : Shape {
    explicit Square(double side) : side(side) {}
    double area() const override { return side * side; }
    double side;
};
struct Circle : Shape {
    explicit Circle(double radius) : radius(radius) {
        if (radius < 0) throw std::invalid_argument("radius " + std::to_string(radius));
    }
    double area() const override { return 3.25 * radius * radius; }
    double radius;
};
struct Guard {
    explicit Guard(int n) : n(n) {}
    ~Guard() { last += "~" + std::to_string(n); }
    int n;
};

int deep(int n) {
    Guard guard(n);
    if (n == 0) throw std::out_of_range("bottom");
    return deep(n - 1) + n;
}

double shapes(const std::vector<double> &sizes) {
    std::vector<std::unique_ptr<Shape>> all;
    for (double size : sizes) {
        if (size > 3) all.push_back(std::make_unique<Square>(size));
        else all.push_back(std::make_unique<Circle>(size));
    }
    double sum = 0;
    for (const auto &shape : all) sum += shape->area();
    return sum;
}

}  // namespace

int main() {
    std::printf("shapes %.3f\n", shapes({1, 2, 3, 4, 5}));
    try {
        shapes({1, -2, 3});
    } catch (const std::invalid_argument &error) {
        std::printf("caught %s\n", error.what());
    }
    try {
        deep(5);
    } catch (const std::exception &error) {
        std::printf("caught %s %s\n", error.what(), last.c_str());
    }
    std::map<std::string, int> words;
    for (const char *word : {"sea", "wall", "sea", "level", "wall", "sea"}) words[word]++;
    for (const auto &[word, count] : words) std::printf("%s %d\n", word.c_str(), count);
    std::vector<int> values;
    for (int i = 0; i < 100; i++) values.push_back(i * 37 % 101);
    std::sort(values.begin(), values.end(), [](int a, int b) { return a % 10 * 200 + a < b % 10 * 200 + b; });
    std::printf("sorted %d %d %d counter %d\n", values[0], values[50], values[99], counter);
}
